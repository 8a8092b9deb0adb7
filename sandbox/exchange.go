package sandbox

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// Headers of the sandbox's own.
const (
	headerFault    = "Pawl-Sandbox-Fault"
	headerRequest  = "Pawl-Sandbox-Request"
	headerRun      = "Pawl-Run"
	headerStep     = "Pawl-Step"
	headerNotAfter = "Pawl-Not-After"
	headerReplayed = "Idempotent-Replayed"
)

const (
	maxBody   = 1 << 20
	maxTerms  = 16
	bodyTime  = 30 * time.Second
	writeTime = 30 * time.Second
)

// exchange is one request of a service from its arrival to its answer.
type exchange struct {
	s    *Sandbox
	stop <-chan struct{} // ends waits
	w    http.ResponseWriter
	r    *http.Request
	ep   *endpoint // nil where no endpoint is at the path
	mode Mode      // at arrival: where the key is

	seq         int64
	fault       Fault
	run, step   string
	notAfter    time.Time
	fields      map[string]any
	key         string
	fingerprint string
	absent      bool     // a lie is told
	bad         *problem // the request cannot be understood
}

// errStopped ends an exchange without an answer.
var errStopped = errors.New("sandbox is stopping")

func (x *exchange) service() string {
	if x.ep == nil {
		return ""
	}
	return x.ep.service
}

func (x *exchange) write() bool { return x.ep != nil && x.ep.act != nil }

// serve takes the request through its stages. It returns an error where the ledger fails or
// the sandbox stops; nothing has been answered then.
func (x *exchange) serve() error {
	rc := http.NewResponseController(x.w)
	// A wait may be longer than the server allows; the write sets its own deadline.
	_ = rc.SetWriteDeadline(time.Time{})
	_ = rc.SetReadDeadline(time.Now().Add(bodyTime))

	head := x.readHead()
	if full, err := x.arrive(); err != nil {
		return err
	} else if full {
		return x.plain(&problem{Status: 507, Code: "ledger_full", Message: "the ledger holds no more requests; DELETE /admin/ledger empties it"})
	}
	if head != nil {
		return x.plain(head)
	}
	select {
	case x.s.slots <- struct{}{}:
		defer func() { <-x.s.slots }()
	default:
		return x.plain(&problem{Status: 503, Code: "busy", Message: "too many requests at a time; nothing was done", RetryAfter: 1})
	}
	if x.fault.ending == endRefuse {
		return x.deliver(answer{})
	}
	raw, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		x.bad = &problem{Status: 413, Code: "too_large", Message: "the body is larger than 1 MiB", malformed: true}
	case err != nil:
		if err := x.note("unread", 0); err != nil {
			return err
		}
		panic(http.ErrAbortHandler)
	default:
		x.understand(raw)
	}
	_ = rc.SetReadDeadline(time.Time{})
	if err := x.accept(len(raw)); err != nil {
		return err
	}
	return x.perform()
}

// readHead reads what the headers say.
func (x *exchange) readHead() *problem {
	h := x.r.Header
	x.run, x.step = label(h.Get(headerRun)), label(h.Get(headerStep))
	if x.ep == nil {
		return &problem{Status: 404, Code: "no_endpoint", Message: "no such method and path; docs/sandbox.md lists them", malformed: true}
	}
	if line := h.Get(headerFault); line != "" {
		f, err := ParseFault(line)
		if err != nil {
			return faultProblem(err)
		}
		if verb := f.needsEffect(); verb != "" && !x.write() {
			return faultProblem(&FaultError{Clause: verb, What: "only a request with an effect can have it"})
		}
		x.fault = f
	}
	if text := h.Get(headerNotAfter); text != "" {
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return invalid(headerNotAfter, "want an instant such as 2026-11-30T12:00:00Z")
		}
		x.notAfter = t
	}
	return nil
}

func faultProblem(err error) *problem {
	return &problem{Status: 400, Code: "fault_invalid", Message: err.Error() + "; the grammar is: " + FaultGrammar, malformed: true}
}

// arrive records that the request came and takes a refusal that is queued for it. It
// reports whether the ledger is full.
func (x *exchange) arrive() (full bool, err error) {
	x.mode = x.s.mode(x.service())
	x.key = x.keyOutsideBody()
	path := x.r.URL.RequestURI()
	if len(path) > 2048 {
		path = path[:2048]
	}
	path = strings.ToValidUTF8(path, "?")
	err = x.s.ledger.write(x.s.ledger.noted, func(tx *sql.Tx) error {
		var held int64
		if err := tx.QueryRow(`SELECT coalesce((SELECT max(seq) FROM requests) - (SELECT min(seq) FROM requests) + 1, 0)`).Scan(&held); err != nil {
			return err
		}
		if full = held >= x.s.maxRequests; full {
			return nil
		}
		r, err := tx.Exec(`INSERT INTO requests (at, method, path, service, via, run, step, key) VALUES (?, ?, ?, ?, '', ?, ?, ?)`,
			micros(x.s.Now()), x.r.Method, path, x.service(), x.run, x.step, clipKey(x.key))
		if err != nil {
			return err
		}
		if x.seq, err = r.LastInsertId(); err != nil || x.ep == nil || x.fault != (Fault{}) {
			return err
		}
		return x.takeFault(tx, true)
	})
	return full, err
}

func (x *exchange) keyOutsideBody() string {
	switch x.mode.Carrier {
	case CarrierHeader:
		return strings.ToValidUTF8(x.r.Header.Get(x.mode.Name), "?")
	case CarrierQuery:
		return strings.ToValidUTF8(x.r.URL.Query().Get(x.mode.Name), "?")
	}
	return ""
}

// label bounds a header that is recorded and nothing else.
func label(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), 255)], "?")
}

// clipKey bounds what is recorded of a key that is too long to be honoured.
func clipKey(key string) string {
	return strings.ToValidUTF8(key[:min(len(key), maxKey)], "?")
}

// understand parses the body and finds the key and the fingerprint.
func (x *exchange) understand(raw []byte) {
	x.fields = map[string]any{}
	if len(raw) > 0 {
		if x.fields, x.bad = x.parse(raw); x.bad != nil {
			return
		}
	}
	if !x.write() {
		return
	}
	if name := x.mode.Name; x.mode.Carrier == CarrierBody {
		if v, ok := x.fields[name]; ok {
			text, isText := v.(string)
			if !isText && v != nil {
				x.bad = invalid(name, "want text")
				return
			}
			x.key = text
			delete(x.fields, name)
		}
	}
	canonical, err := pawl.AppendJSON(nil, x.fields)
	if err != nil {
		x.bad = &problem{Status: 400, Code: "invalid_json", Message: err.Error(), malformed: true}
		return
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s\n%s", x.r.Method, x.r.URL.Path, canonical)
	x.fingerprint = hex.EncodeToString(sum.Sum(nil))
}

// parse reads the fields of a body.
func (x *exchange) parse(raw []byte) (map[string]any, *problem) {
	media, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	guise := x.ep.guise
	switch {
	case guise != nil && guise.form:
		if media != "application/x-www-form-urlencoded" {
			return nil, &problem{Status: 415, Code: "unsupported_media_type", Message: "want a form", malformed: true}
		}
		fields, err := fieldsOfForm(raw)
		if err != nil {
			return nil, &problem{Status: 400, Code: "invalid_form", Message: err.Error(), malformed: true}
		}
		return fields, nil
	case guise == nil && (err != nil || media != "application/json"):
		return nil, &problem{Status: 415, Code: "unsupported_media_type", Message: "want Content-Type: application/json", malformed: true}
	}
	v, err := pawl.ParseJSON(raw)
	if err != nil {
		return nil, &problem{Status: 400, Code: "invalid_json", Message: err.Error(), malformed: true}
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, &problem{Status: 400, Code: "invalid_json", Message: "want an object", malformed: true}
	}
	return fields, nil
}

// accept records what the request is, takes the fault queued for it and counts lies.
func (x *exchange) accept(size int) error {
	return x.s.ledger.write(x.s.ledger.noted, func(tx *sql.Tx) error {
		if x.fault == (Fault{}) {
			if err := x.takeFault(tx, false); err != nil {
				return err
			}
		}
		if x.fault.lies() {
			if err := armLie(tx, x.ep.service, x.fault, x.s.Now()); err != nil {
				return err
			}
		}
		if !x.write() {
			var err error
			if x.absent, err = countLie(tx, x.ep.service, x.s.Now()); err != nil {
				return err
			}
		}
		_, err := tx.Exec(`UPDATE requests SET key = ?, fingerprint = ?, bytes = ?, fault = ? WHERE seq = ?`,
			clipKey(x.key), x.fingerprint, size, x.fault.String(), x.seq)
		return err
	})
}

// perform does what the request asks, with the waits that the fault puts around it.
func (x *exchange) perform() error {
	f := x.fault
	if err := x.pause(f.delayBefore, f.holdBefore); errors.Is(err, errTooManyHeld) {
		return x.plain(tooManyHeld)
	} else if err != nil {
		return err
	}
	if f.when == before {
		if f.ending == endStatus && x.write() && x.bad == nil {
			if err := x.s.ledger.write(x.s.ledger.durable, x.rememberFailure); err != nil {
				return err
			}
		}
		return x.deliver(answer{})
	}
	a, err := x.outcome()
	if err != nil {
		return err
	}
	if f.duplicate {
		again, err := x.copy()
		if err != nil {
			return err
		}
		if _, err := again.outcome(); err != nil {
			return err
		}
	}
	if err := x.pause(f.delayAfter, f.holdAfter); errors.Is(err, errTooManyHeld) {
		return x.plain(tooManyHeld)
	} else if err != nil {
		return err
	}
	return x.deliver(a)
}

// tooManyHeld is answered in place of a hold; a hold after the work does not undo it.
var tooManyHeld = &problem{Status: 503, Code: "too_many_held", Message: "too many requests are held already"}

// pause waits for the delay, then for the release. The client's going away ends neither:
// what it sent arrives all the same.
func (x *exchange) pause(delay time.Duration, hold bool) error {
	if delay > 0 && !x.s.waitUntil(x.s.Now().Add(delay), x.stop) {
		return errStopped
	}
	if !hold {
		return nil
	}
	return x.s.holds.hold(x.seq, x.stop, x.s.closed)
}

// copy records a second delivery of the request, whose own answer nobody gets.
func (x *exchange) copy() (*exchange, error) {
	again := *x
	err := x.s.ledger.write(x.s.ledger.noted, func(tx *sql.Tx) error {
		r, err := tx.Exec(`INSERT INTO requests (at, method, path, service, via, run, step, key, fingerprint, bytes, answer)
			SELECT ?, method, path, service, 'duplicate', run, step, key, fingerprint, bytes, 'nobody' FROM requests WHERE seq = ?`,
			micros(x.s.Now()), x.seq)
		if err != nil {
			return err
		}
		again.seq, err = r.LastInsertId()
		return err
	})
	return &again, err
}

// outcome makes the service's answer.
func (x *exchange) outcome() (answer, error) {
	switch {
	case x.bad != nil:
		return x.bad.answer(), x.decided("rejected", 0)
	case x.ep.record:
		return x.record()
	case !x.write():
		return x.read()
	}
	for {
		var v verdict
		err := x.s.ledger.write(x.s.ledger.durable, func(tx *sql.Tx) error {
			var err error
			if v, err = x.decide(tx); err != nil || !v.again.IsZero() {
				return err
			}
			_, err = tx.Exec(`UPDATE requests SET outcome = ?, effect = ? WHERE seq = ?`, v.outcome, v.effect, x.seq)
			return err
		})
		switch {
		case err != nil:
			return answer{}, err
		case v.again.IsZero():
			// Slow work is waited for; an edge does not wait.
			if x.fault.ending != endEdge && !x.s.waitUntil(v.busyUntil, x.stop) {
				return answer{}, errStopped
			}
			return v.answer, nil
		case !x.s.waitUntil(v.again, x.stop):
			return answer{}, errStopped
		}
	}
}

func (x *exchange) decided(outcome string, effect int64) error {
	return x.s.ledger.write(x.s.ledger.noted, func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE requests SET outcome = ?, effect = ? WHERE seq = ?`, outcome, effect, x.seq)
		return err
	})
}
