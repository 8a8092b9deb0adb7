package sandbox

import (
	"database/sql"
	"errors"
	"math"
	"time"
)

// maxKey is the length of the longest key.
const maxKey = 255

// remembered is what a service knows under a key.
type remembered struct {
	busyUntil   time.Time
	fingerprint string
	// service and id name the object that was answered, if one was.
	service, id string
	status      int
	body        string
}

func inFlight(now, until time.Time) *problem {
	return &problem{
		Status: 409, Code: "key_in_flight", Message: "a request with this key is being worked on",
		RetryAfter: max(1, int(math.Ceil(until.Sub(now).Seconds()))), malformed: true,
	}
}

// verdict is what was decided about a request in one transaction.
type verdict struct {
	answer  answer
	outcome string
	effect  int64
	// busyUntil is when work that takes time is done.
	busyUntil time.Time
	// again, if set, is when to decide again: the key's first request is done then.
	again time.Time
}

// decide carries a write out, or tells from its key that it must not be. Effect, key and
// verdict are one transaction.
func (x *exchange) decide(tx *sql.Tx) (verdict, error) {
	if x.ep.received {
		return x.receive(tx)
	}
	now, mode := x.s.Now(), x.s.mode(x.ep.service)
	key, v, err := x.standing(tx, now, mode)
	if err != nil || v.outcome != "" || !v.again.IsZero() {
		return v, err
	}
	w := &work{
		tx: tx, now: now, mode: mode, form: &form{fields: x.fields}, id: x.r.PathValue("id"), key: key, notAfter: x.notAfter,
		busy: x.fault.work, landing: x.fault.lands,
		effect: Effect{Key: x.key, Request: x.seq, Fingerprint: x.fingerprint, Run: x.run, Step: x.step},
	}
	if w.landing == 0 && x.ep.creates {
		w.landing = mode.Landing
	}
	if _, err := tx.Exec(`SAVEPOINT work`); err != nil {
		return verdict{}, err
	}
	res, err := x.ep.act(w)
	var p *problem
	switch {
	case errors.As(err, &p):
		if _, err := tx.Exec(`ROLLBACK TO work`); err != nil {
			return verdict{}, err
		}
		v := verdict{answer: p.answer(), outcome: "rejected"}
		if key != "" && mode.OnError == OnErrorReplay && !p.malformed {
			err := remember(tx, x.ep.service, key, now, now, x.fingerprint, nil, v.answer)
			return v, err
		}
		return v, nil
	case err != nil:
		return verdict{}, err
	}
	return x.conclude(w, res)
}

// standing tells what the key alone decides, and returns the key if it counts.
func (x *exchange) standing(tx *sql.Tx, now time.Time, mode Mode) (string, verdict, error) {
	none := verdict{}
	refuse := func(p *problem, outcome string) (string, verdict, error) {
		return "", verdict{answer: p.answer(), outcome: outcome}, nil
	}
	if mode.Keys != KeysHonoured || x.ep.convergent {
		return "", none, nil
	}
	key := x.key
	if key == "" {
		if mode.Required {
			return refuse(&problem{Status: 400, Code: "key_required", Message: "this service needs a key in the " + mode.Carrier + " " + mode.Name}, "rejected")
		}
		return "", none, nil
	}
	if len(key) > maxKey {
		return refuse(&problem{Status: 400, Code: "key_invalid", Message: "the key is longer than 255 bytes"}, "rejected")
	}
	r, err := recall(tx, x.ep.service, key, now.Add(-mode.Retention))
	if err != nil {
		return "", none, err
	}
	if r != nil {
		if r.fingerprint != x.fingerprint && mode.OnMismatch != OnMismatchIgnore {
			status := 422
			if mode.OnMismatch == OnMismatch409 {
				status = 409
			}
			return refuse(&problem{Status: status, Code: "key_mismatch", Message: "the key came with another request before"}, "mismatch")
		}
		if r.busyUntil.After(now) {
			if mode.OnInFlight == OnInFlightWait {
				return "", verdict{again: r.busyUntil}, nil
			}
			return refuse(inFlight(now, r.busyUntil), "in_flight")
		}
		v, err := r.verdict(tx, now, mode)
		return "", v, err
	}
	var until int64
	err = tx.QueryRow(`SELECT until FROM tombstones WHERE service = ? AND key = ? AND until > ?`, x.ep.service, key, micros(now)).Scan(&until)
	switch {
	case err == nil:
		return refuse(&problem{Status: 409, Code: "key_cancelled", Message: "the key was cancelled before; nothing was done"}, "cancelled")
	case !errors.Is(err, sql.ErrNoRows):
		return "", none, err
	}
	return key, none, nil
}

// verdict answers a duplicate of a request that is done.
func (r *remembered) verdict(tx *sql.Tx, now time.Time, mode Mode) (verdict, error) {
	if r.id != "" {
		switch mode.OnDuplicate {
		case OnDuplicateLatest:
			body, err := readObject(tx, now, r.service, r.id)
			return verdict{answer: answer{status: 200, body: body}, outcome: "latest"}, err
		case OnDuplicateConflict:
			p := &problem{Status: 409, Code: "key_conflict", Message: "the key was used before", ResourceID: r.id}
			return verdict{answer: p.answer(), outcome: "conflict"}, nil
		}
	}
	return verdict{answer: answer{status: r.status, body: []byte(r.body), replayed: true}, outcome: "replayed"}, nil
}

// conclude makes the verdict on work that was done, and what the key remembers of it.
func (x *exchange) conclude(w *work, res *result) (verdict, error) {
	v := verdict{outcome: "done", busyUntil: w.now.Add(w.busy), answer: answer{status: res.status, body: res.raw}}
	if res.raw == nil {
		body, err := readObject(w.tx, v.busyUntil, res.service, res.id)
		if err != nil {
			return verdict{}, err
		}
		v.answer.body = body
	}
	if res.effect != nil {
		v.effect = res.effect.Seq
	}
	if x.fault.fails {
		v.outcome, v.effect = "failed", 0
		if err := w.undo(res); err != nil {
			return verdict{}, err
		}
	}
	told := v.answer
	if x.fault.ending == endStatus {
		switch w.mode.OnError {
		case OnErrorForget:
			return v, nil
		case OnErrorReplay:
			told = failure(x.fault.n)
		}
	}
	if w.key == "" {
		return v, nil
	}
	return v, remember(w.tx, x.ep.service, w.key, w.now, v.busyUntil, x.fingerprint, res, told)
}

// undo takes back what was written since the savepoint and leaves an object that fails
// when it should land.
func (w *work) undo(res *result) error {
	if _, err := w.tx.Exec(`ROLLBACK TO work`); err != nil {
		return err
	}
	o := res.created
	if o == nil {
		return nil
	}
	if _, err := nextID(w.tx, ""); err != nil { // the number stays given out
		return err
	}
	o.fails = true
	return insertObject(w.tx, o)
}

// recall returns what is remembered under a key, or nil; what began before oldest is
// forgotten for good.
func recall(tx *sql.Tx, service, key string, oldest time.Time) (*remembered, error) {
	if _, err := tx.Exec(`DELETE FROM keys WHERE service = ? AND key = ? AND at <= ?`, service, key, micros(oldest)); err != nil {
		return nil, err
	}
	var r remembered
	var busyUntil int64
	err := tx.QueryRow(`SELECT busy_until, fingerprint, object_service, object_id, status, body FROM keys
		WHERE service = ? AND key = ?`, service, key).Scan(&busyUntil, &r.fingerprint, &r.service, &r.id, &r.status, &r.body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	r.busyUntil = instant(busyUntil)
	return &r, err
}

// remember keeps an answer under a key. Res is nil where nothing was done.
func remember(tx *sql.Tx, service, key string, now, busyUntil time.Time, fingerprint string, res *result, a answer) error {
	var objectService, id string
	var effect int64
	if res != nil {
		objectService, id = res.service, res.id
		if res.effect != nil {
			effect = res.effect.Seq
		}
	}
	_, err := tx.Exec(`INSERT INTO keys (service, key, at, busy_until, fingerprint, object_service, object_id, effect, status, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, service, key, micros(now), micros(busyUntil), fingerprint, objectService, id, effect, a.status, string(a.body))
	return err
}

// rememberFailure keeps a failure that came before any work, where the mode replays
// errors. What is refused at the door, such as 401 and 429, never reaches the keys.
func (x *exchange) rememberFailure(tx *sql.Tx) error {
	now, mode := x.s.Now(), x.s.mode(x.ep.service)
	if mode.OnError != OnErrorReplay || x.fault.n == 401 || x.fault.n == 403 || x.fault.n == 429 {
		return nil
	}
	key, v, err := x.standing(tx, now, mode)
	if err != nil || key == "" || v.outcome != "" || !v.again.IsZero() {
		return err
	}
	return remember(tx, x.ep.service, key, now, now, x.fingerprint, nil, failure(x.fault.n))
}
