package sandbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/receiver"
)

// moved is what the receiver is asked about: a move under a key. Its times are the real
// ones, whatever the sandbox's clock was advanced by.
func moved(key string) *receiver.Request {
	return &receiver.Request{Method: http.MethodPost, Path: "/v1/stock/moves", Key: key}
}

// receive carries a move out once: the receiver's record and the effect are one transaction.
func (x *exchange) receive(tx *sql.Tx) (verdict, error) {
	key, err := receiver.ParseKey(x.r.Header, true)
	if err != nil {
		return received(err)
	}
	req := moved(key)
	req.NotAfter = x.notAfter
	if req.Body, err = pawl.AppendJSON(nil, x.fields); err != nil {
		return verdict{}, err
	}
	outcome := "done"
	var effect int64
	res, err := receiver.Once(context.Background(), receiver.TxOf(tx, receiver.SQLite), req, func(context.Context) (*receiver.Response, error) {
		w := &work{
			tx: tx, now: x.s.Now(), mode: x.s.mode(x.ep.service), form: &form{fields: x.fields}, key: key, busy: x.fault.work,
			effect: Effect{Key: key, Request: x.seq, Fingerprint: x.fingerprint, Run: x.run, Step: x.step},
		}
		made, err := x.ep.act(w)
		var p *problem
		if errors.As(err, &p) {
			outcome = "rejected"
			a := p.answer()
			return &receiver.Response{Status: a.status, Header: http.Header{}, Body: a.body}, nil
		}
		if err != nil {
			return nil, err
		}
		effect = made.effect.Seq
		body, err := readObject(tx, w.now.Add(w.busy), made.service, made.id)
		return &receiver.Response{Status: made.status, Header: http.Header{}, Body: body}, err
	}, nil)
	if err != nil {
		return received(err)
	}
	if res.Replayed {
		outcome = "replayed"
	}
	return verdict{answer: answer{status: res.Status, body: res.Body, replayed: res.Replayed}, outcome: outcome, effect: effect, busyUntil: x.s.Now()}, nil
}

// received answers with the receiver's refusal; another error is the ledger's.
func received(err error) (verdict, error) {
	outcome := "rejected"
	switch {
	case errors.Is(err, receiver.ErrMismatch):
		outcome = "mismatch"
	case errors.Is(err, receiver.ErrFenced):
		outcome = "cancelled"
	case errors.Is(err, receiver.ErrTooLate), errors.Is(err, receiver.ErrNotAfter), errors.Is(err, receiver.ErrNoKey), errors.Is(err, receiver.ErrBadKey), errors.Is(err, receiver.ErrExpired):
	default:
		return verdict{}, err
	}
	return verdict{answer: problemAnswer(err), outcome: outcome}, nil
}

func problemAnswer(err error) answer {
	status, header, body := receiver.Problem(err, false)
	a := answer{status: status, body: body, header: map[string]string{}}
	for name := range header {
		a.header[name] = header.Get(name)
	}
	return a
}

// record answers what the receiver knows of a key; ?fence=1 makes absence final.
func (x *exchange) record() (answer, error) {
	key := x.r.PathValue("id")
	if strings.HasPrefix(key, `"`) {
		var err error
		if key, err = receiver.ParseKey(http.Header{"Idempotency-Key": {key}}, false); err != nil {
			return problemAnswer(err), x.decided("rejected", 0)
		}
	}
	var s *receiver.Status
	err := x.s.ledger.write(x.s.ledger.durable, func(tx *sql.Tx) (err error) {
		if x.r.URL.Query().Get("fence") == "1" {
			s, err = receiver.Fence(context.Background(), receiver.TxOf(tx, receiver.SQLite), moved(key), nil)
		} else {
			s, err = receiver.Look(context.Background(), receiver.TxOf(tx, receiver.SQLite), moved(key))
		}
		return err
	})
	if err != nil {
		return answer{}, err
	}
	outcome := "read"
	if x.absent {
		s, outcome = &receiver.Status{State: receiver.Absent, At: s.At}, "absent"
	}
	body, err := json.Marshal(s)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: body}, x.decided(outcome, 0)
}
