package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/sandbox"
)

// line is one thing that happened in a scene.
type line struct {
	at    time.Time
	who   string
	text  string
	style terminal.Style // of the whole text, or of status where that is set
	// status begins the text; more follows in lines of its own.
	status pawl.Status
	more   []string
}

func (s *Scene) add(l line) {
	if l.at.IsZero() {
		l.at = time.Now()
	}
	s.lines = append(s.lines, l)
}

func (s *Scene) addNote(text string) { s.add(line{who: "note", text: text, style: terminal.Dim}) }

func (s *Scene) addKill(pid int) {
	s.add(line{who: "kill", text: fmt.Sprintf("kill -9 %d", pid), style: terminal.Red})
}

// by adds the name of a worker that is not the desk itself.
func by(worker string) string {
	if worker == "" {
		return ""
	}
	return worker + ": "
}

func (s *Scene) addAsk(worker, tool, args string) {
	s.add(line{who: "agent", text: by(worker) + tool, style: terminal.Bold, more: []string{args}})
}

func (s *Scene) addEnvelope(worker string, env *pawl.Envelope) {
	retry := "retry_safe false"
	if env.RetrySafe {
		retry = "retry_safe true"
	}
	text := fmt.Sprintf("%s, next %s, %s", env.ActionTaken, env.NextAction, retry)
	if len(env.Differs) > 0 {
		text += ", differs " + strings.Join(env.Differs, " ")
	}
	s.add(line{who: "model", text: by(worker) + text, status: env.Status, more: []string{env.Effect, env.Message}})
}

// addRequests adds what went over the wire, as the provider recorded it.
func (s *Scene) addRequests(list []sandbox.Request) {
	for _, q := range list {
		path := strings.Replace(q.Path, "?key=", "?key ", 1)
		if i := strings.Index(path, "?key "); i >= 0 && len(path) > i+13 {
			path = path[:i+13] + "…"
		}
		s.add(line{at: q.At, who: "wire", text: fmt.Sprintf("%s %s: %s", q.Method, path, fate(&q)), style: terminal.Cyan})
	}
}

// fate says what became of a request.
func fate(q *sandbox.Request) string {
	var done string
	switch {
	case q.Effect != 0 && q.Service == sandbox.Refunds:
		done = "the shop books the refund"
	case q.Effect != 0 && strings.HasSuffix(q.Path, "/cancel"):
		done = "the booking is cancelled"
	case q.Effect != 0 && q.Service == sandbox.Bookings:
		done = "it is booked"
	case q.Effect != 0:
		done = "the mail is sent"
	case q.Outcome == "read":
		done = "the shop looks it up"
	default:
		done = "the shop decides: " + q.Outcome
	}
	switch {
	case strings.Contains(q.Fault, "hold after"):
		return done + "; its answer never arrives"
	case q.Answer == "reset":
		return done + "; the connection breaks before the answer"
	case strings.HasPrefix(q.Fault, "delay"):
		return done + " after a while, " + q.Answer
	}
	return done + ", " + q.Answer
}

// addHistory adds what pawl concluded, as its record has it.
func (s *Scene) addHistory(op *pawl.Operation, entries []pawl.Entry) {
	for i := range entries {
		e := &entries[i]
		if e.From.Settled() && e.From != "" {
			continue // late evidence that decides nothing
		}
		who := "pawl"
		if e.Decision != nil {
			who = "person"
		}
		l := line{at: e.At, who: who, text: conclusion(op, e), style: terminal.Plain}
		if e.From != e.To {
			l.status = e.To
		}
		s.add(l)
	}
}

func conclusion(op *pawl.Operation, e *pawl.Entry) string {
	switch pawl.EventKind(e.Event) {
	case pawl.EventBegin:
		if e.To == pawl.Prepared {
			return "the exact request is on disk and waits for a yes; nothing is sent"
		}
		return "the intent is on disk, key " + op.Key.String()[:8] + "…"
	case pawl.EventNoAnswer:
		return "no answer within " + op.Contract.Timeout.String() + "; nothing is sent again"
	case pawl.EventTakeover:
		return "the dead worker's claim has lapsed; nothing is sent again"
	case pawl.EventAnswer:
		if e.Evidence.Code != 0 {
			return fmt.Sprintf("the answer %d proves it", e.Evidence.Code)
		}
		return "the request went out and no answer came back: no proof either way"
	case pawl.EventProbe:
		if e.Probe.Outcome == pawl.Found {
			return "asked by key, the shop shows " + strings.Join(e.Probe.Refs, ", ")
		}
		return "asked by key, the shop says " + string(e.Probe.Outcome)
	case pawl.EventReview:
		return "no key, nobody to ask: a person has to look"
	case pawl.EventResend:
		return "sent once more: the same bytes under the same key"
	case pawl.EventAbort:
		return "the run is called off: this is settled first, and nothing new begins"
	case pawl.EventCompensated:
		return "it is undone"
	case pawl.EventPermit:
		return "the yes is used: one request may go out"
	case pawl.EventDecide:
		if e.Decision.Choice == pawl.ChoiceApprove {
			return fmt.Sprintf("%s says yes: %s", e.Decision.Who, e.Decision.Why)
		}
		return fmt.Sprintf("%s: %s, reference %s", e.Decision.Who, e.Decision.Why, e.Decision.Ref)
	}
	return e.Event
}
