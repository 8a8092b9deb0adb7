package sandbox

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Fault says what goes wrong with one request. It is written as one printable line of
// clauses joined by ";". D is a Go duration (3s, 250ms, 25h), N a number, and W one of
// before (nothing is done for the request) and after (the work is done and committed).
//
//	delay D W            wait D before the work, or between the work and the answer
//	hold W               the same, until POST /admin/release
//	work D               the work takes D: its key is in flight, then the effect lands
//	accept 202 lands D   answer 202 with a pending object; the effect lands after D
//	accept 202 fails D   answer 202 with a pending object that fails after D; no effect
//	duplicate            deliver the request twice; the first delivery is answered
//	lie N absent         the next N reads of the service find nothing
//	lie D absent         reads of the service find nothing for D
//
// and at most one ending in place of the usual answer:
//
//	refuse               RST before the body is read; nothing is done
//	reset W              RST
//	fin W                orderly close without an answer
//	status N W           a failure of the application, in the service's own error shape
//	html N W             an HTML page, as a proxy or a login portal sends it
//	edge N work D        an edge gives up with N while the origin works on for D
//	empty N after        no body
//	cut N after          the body ends after N bytes of the announced length
//	garbage after        a JSON content type and a body that is no JSON
//	slow body NB/s       the body comes at N bytes a second
//
// Refuse stands alone. An ending that has "before" goes with delay before, hold before and
// lie only; work, accept and edge exclude each other. On a read, before and after are the same, and
// work, accept, duplicate and edge are refused. Waits follow the sandbox's clock: they end
// early when it is advanced past them. The zero Fault is no fault.
type Fault struct {
	delayBefore, delayAfter time.Duration
	holdBefore, holdAfter   bool
	work                    time.Duration
	lands                   time.Duration
	fails                   bool
	duplicate               bool
	lieReads                int
	lieFor                  time.Duration
	ending                  ending
	when                    string
	n                       int
}

// ending is how a faulty answer leaves.
type ending string

const (
	endRefuse  ending = "refuse"
	endReset   ending = "reset"
	endFin     ending = "fin"
	endStatus  ending = "status"
	endHTML    ending = "html"
	endEdge    ending = "edge"
	endEmpty   ending = "empty"
	endCut     ending = "cut"
	endGarbage ending = "garbage"
	endSlow    ending = "slow"
)

const (
	before = "before"
	after  = "after"
)

// Limits of a fault line.
const (
	maxFaultLine = 256
	maxWait      = time.Hour            // delay and work
	maxLanding   = 400 * 24 * time.Hour // accept and lie
	maxLieReads  = 10_000
	maxSlowRate  = 1 << 20
)

// FaultGrammar is the grammar of a fault line, for messages to people.
const FaultGrammar = `delay D before|after; hold before|after; work D; accept 202 lands D; accept 202 fails D; duplicate; ` +
	`lie N absent; lie D absent; and one of: refuse; reset before|after; fin before|after; status N before|after; ` +
	`html N before|after; edge N work D; empty N after; cut N after; garbage after; slow body NB/s ` +
	`(clauses are joined by ";", D is a duration such as 3s, N a number)`

// FaultError says which clause of a fault line is refused and why.
type FaultError struct {
	// Clause is the refused clause, or empty where the line as a whole is refused.
	Clause string
	// What is wrong.
	What string
}

// Error gives clause and reason on one line.
func (e *FaultError) Error() string {
	if e.Clause == "" {
		return "fault line: " + e.What
	}
	return fmt.Sprintf("fault line: %q: %s", e.Clause, e.What)
}

// ParseFault reads a fault line. Errors are *FaultError.
func ParseFault(line string) (Fault, error) {
	var f Fault
	if len(line) > maxFaultLine {
		return Fault{}, &FaultError{What: fmt.Sprintf("longer than %d bytes", maxFaultLine)}
	}
	for i := range len(line) {
		if line[i] < ' ' || line[i] > '~' {
			return Fault{}, &FaultError{What: fmt.Sprintf("byte %d is not printable ASCII", i)}
		}
	}
	for text := range strings.SplitSeq(line, ";") {
		words := strings.Fields(text)
		if len(words) == 0 {
			return Fault{}, &FaultError{What: "empty clause"}
		}
		if what := f.add(words); what != "" {
			return Fault{}, &FaultError{Clause: strings.Join(words, " "), What: what}
		}
	}
	if what := f.contradiction(); what != "" {
		return Fault{}, &FaultError{What: what}
	}
	return f, nil
}

// add reads one clause into f and returns what is wrong with it.
func (f *Fault) add(words []string) string {
	shape := func(pattern ...string) bool {
		if len(words) != len(pattern) {
			return false
		}
		for i, p := range pattern {
			if p != "" && p != words[i] {
				return false
			}
		}
		return true
	}
	once := func(taken bool, set func()) string {
		if taken {
			return "given twice"
		}
		set()
		return ""
	}
	switch verb := words[0]; {
	case shape("delay", "", before), shape("delay", "", after):
		d, what := duration(words[1], maxWait)
		if what != "" {
			return what
		}
		to := &f.delayBefore
		if words[2] == after {
			to = &f.delayAfter
		}
		return once(*to != 0, func() { *to = d })
	case shape("hold", before):
		return once(f.holdBefore, func() { f.holdBefore = true })
	case shape("hold", after):
		return once(f.holdAfter, func() { f.holdAfter = true })
	case shape("work", ""):
		d, what := duration(words[1], maxWait)
		if what != "" {
			return what
		}
		return once(f.work != 0, func() { f.work = d })
	case shape("accept", "202", "lands", ""), shape("accept", "202", "fails", ""):
		d, what := duration(words[3], maxLanding)
		if what != "" {
			return what
		}
		return once(f.lands != 0, func() { f.lands, f.fails = d, words[2] == "fails" })
	case shape("duplicate"):
		return once(f.duplicate, func() { f.duplicate = true })
	case shape("lie", "", "absent"):
		if n, what := number(words[1], 1, maxLieReads); what == "" {
			return once(f.lies(), func() { f.lieReads = n })
		}
		d, what := duration(words[1], maxLanding)
		if what != "" {
			return fmt.Sprintf("want a number up to %d or a duration up to %v", maxLieReads, maxLanding)
		}
		return once(f.lies(), func() { f.lieFor = d })
	case shape("refuse"):
		return f.end(endRefuse, before, 0)
	case shape("reset", before), shape("reset", after), shape("fin", before), shape("fin", after):
		return f.end(ending(verb), words[1], 0)
	case shape("status", "", before), shape("status", "", after):
		return f.endNumber(words[1], 400, 599, endStatus, words[2])
	case shape("html", "", before), shape("html", "", after):
		return f.endNumber(words[1], 200, 599, endHTML, words[2])
	case shape("edge", "", "work", ""):
		d, what := duration(words[3], maxWait)
		if what != "" {
			return what
		}
		if f.work != 0 {
			return "given beside work"
		}
		f.work = d
		return f.endNumber(words[1], 400, 599, endEdge, after)
	case shape("empty", "", after):
		return f.endNumber(words[1], 200, 599, endEmpty, after)
	case shape("cut", "", after):
		return f.endNumber(words[1], 0, 1<<20, endCut, after)
	case shape("garbage", after):
		return f.end(endGarbage, after, 0)
	case shape("slow", "body", ""):
		rate, ok := strings.CutSuffix(words[2], "B/s")
		if !ok {
			return "want a rate such as 1B/s"
		}
		return f.endNumber(rate, 1, maxSlowRate, endSlow, after)
	default:
		return "no such clause"
	}
}

func (f *Fault) end(e ending, when string, n int) string {
	if f.ending != "" {
		return fmt.Sprintf("a second ending beside %q", f.ending)
	}
	f.ending, f.when, f.n = e, when, n
	return ""
}

func (f *Fault) endNumber(word string, low, high int, e ending, when string) string {
	n, what := number(word, low, high)
	if what != "" {
		return what
	}
	if n == 304 || n == 204 && e != endEmpty {
		return fmt.Sprintf("status %d has no body", n)
	}
	return f.end(e, when, n)
}

func (f *Fault) contradiction() string {
	switch {
	case f.work != 0 && f.lands != 0:
		return "accept excludes work and edge"
	case f.ending == endRefuse && *f != Fault{ending: endRefuse, when: before}:
		return "refuse acts before anything else could"
	case f.when == before && (f.delayAfter != 0 || f.holdAfter || f.work != 0 || f.lands != 0 || f.duplicate):
		return fmt.Sprintf("%q before means that nothing is done: only delay before, hold before and lie go with it", f.ending)
	}
	return ""
}

func (f Fault) lies() bool { return f.lieReads != 0 || f.lieFor != 0 }

// needsEffect names a clause that only a request with an effect can have.
func (f Fault) needsEffect() string {
	switch {
	case f.ending == endEdge:
		return "edge"
	case f.work != 0:
		return "work"
	case f.lands != 0:
		return "accept"
	case f.duplicate:
		return "duplicate"
	}
	return ""
}

// String gives the canonical line; ParseFault reads it back to an equal Fault.
func (f Fault) String() string {
	var out []string
	add := func(given bool, format string, args ...any) {
		if given {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(f.lieReads != 0, "lie %d absent", f.lieReads)
	add(f.lieFor != 0, "lie %s absent", plain(f.lieFor))
	add(f.delayBefore != 0, "delay %s before", plain(f.delayBefore))
	add(f.holdBefore, "hold before")
	add(f.duplicate, "duplicate")
	add(f.work != 0 && f.ending != endEdge, "work %s", plain(f.work))
	add(f.lands != 0 && !f.fails, "accept 202 lands %s", plain(f.lands))
	add(f.lands != 0 && f.fails, "accept 202 fails %s", plain(f.lands))
	add(f.delayAfter != 0, "delay %s after", plain(f.delayAfter))
	add(f.holdAfter, "hold after")
	switch f.ending {
	case endRefuse:
		add(true, "refuse")
	case endReset, endFin, endGarbage:
		add(true, "%s %s", f.ending, f.when)
	case endStatus, endHTML, endEmpty, endCut:
		add(true, "%s %d %s", f.ending, f.n, f.when)
	case endEdge:
		add(true, "edge %d work %s", f.n, plain(f.work))
	case endSlow:
		add(true, "slow body %dB/s", f.n)
	}
	return strings.Join(out, "; ")
}

func number(word string, low, high int) (int, string) {
	n, err := strconv.Atoi(word)
	if err != nil || n < low || n > high {
		return 0, fmt.Sprintf("want a number from %d to %d", low, high)
	}
	return n, ""
}

func duration(word string, high time.Duration) (time.Duration, string) {
	d, err := time.ParseDuration(word)
	if err != nil || d < time.Millisecond || d > high {
		return 0, fmt.Sprintf("want a duration from 1ms to %s", plain(high))
	}
	return d, ""
}

// plain writes a duration without the zero parts that Duration.String adds.
func plain(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
