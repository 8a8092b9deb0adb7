package drill

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/sandbox/retail"
)

// seeded is a source that depends on the seed and on what it is for, and on nothing else:
// the same seed gives the same request the same fault, whatever comes in between.
func seeded(seed uint64, what string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(what)) // never fails
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// dice says what goes wrong with each request.
func dice(mode Faults, seed uint64) func(retail.Arrival) retail.Fault {
	return func(a retail.Arrival) retail.Fault {
		_, task, _ := strings.Cut(a.Tenant, "-")
		rng := seeded(seed, fmt.Sprintf("%s %s %d", task, a.Kind, a.N))
		switch {
		case mode == FaultsLost && a.Write:
			return retail.Fault{Answer: lostAnswers[rng.IntN(len(lostAnswers))]}
		case mode == FaultsMix && a.Write:
			return onWrite(rng, a.Converges)
		case mode == FaultsMix:
			return onRead(rng)
		}
		return retail.Fault{}
	}
}

// lostAnswers are the ways in which an answer does not come.
var lostAnswers = []retail.Answer{retail.AnswerReset, retail.AnswerClosed, retail.AnswerNone}

// brokenAnswers are answers that do not say what happened.
var brokenAnswers = []retail.Answer{
	retail.AnswerReset, retail.AnswerClosed, retail.AnswerNone, retail.AnswerCut, retail.AnswerFailed, retail.AnswerPage,
}

// onWrite strikes six of ten writes: at their way there, at the work or at the answer.
func onWrite(rng *rand.Rand, converges bool) (f retail.Fault) {
	switch n := rng.IntN(100); {
	case n < 40:
	case n < 60: // done, and the answer says nothing
		f.Answer = brokenAnswers[rng.IntN(len(brokenAnswers))]
	case n < 72: // not done, and the answer says nothing
		f.Lost = true
		for f.Answer = retail.AnswerCut; f.Answer == retail.AnswerCut; {
			f.Answer = brokenAnswers[rng.IntN(len(brokenAnswers))]
		}
	case n < 78:
		f.Lost, f.Answer = true, retail.AnswerBusy
	case n < 86: // done at once, answered late or much too late
		f.Delay = upTo(rng, 1800*time.Millisecond)
	default: // done late, up to the end of the flight
		f.Lands = upTo(rng, 1950*time.Millisecond)
		if rng.IntN(2) == 0 {
			f.Answer = brokenAnswers[rng.IntN(len(brokenAnswers))]
		}
	}
	f.Twice = converges && !f.Lost && rng.IntN(4) == 0
	return f
}

// onRead strikes one of six reads.
func onRead(rng *rand.Rand) (f retail.Fault) {
	switch n := rng.IntN(100); {
	case n < 84:
	case n < 96:
		f.Answer = brokenAnswers[rng.IntN(len(brokenAnswers))]
	default:
		f.Delay = upTo(rng, 900*time.Millisecond)
	}
	return f
}

// resetting resets one of eight connections as soon as it is made.
type resetting struct {
	net.Listener
	rng *rand.Rand // Accept is called by one goroutine
}

func (r *resetting) Accept() (net.Conn, error) {
	for {
		c, err := r.Listener.Accept()
		if err != nil || r.rng.IntN(8) > 0 {
			return c, err
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
}

func upTo(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(most)))
}
