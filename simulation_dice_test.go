package pawl_test

import (
	"math/rand/v2"
	"time"
)

// dice gives every decision of a simulated schedule its own random source, named by what
// is decided. A decision then depends on the seed and its name alone, not on how many
// decisions other goroutines made before it.
type dice struct{ seed uint64 }

// at returns the source of the decision that the parts name.
func (d dice) at(parts ...string) draw {
	h := uint64(14695981039346656037) // FNV-1a
	for _, p := range parts {
		for i := range len(p) {
			h = (h ^ uint64(p[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211
	}
	return draw{rand.New(rand.NewPCG(d.seed, h))}
}

type draw struct{ *rand.Rand }

func (r draw) chance(p float64) bool { return r.Float64() < p }

// between draws a time from lo up to hi. Its grain is the nanosecond, so that two events
// of one schedule hardly ever fall together.
func (r draw) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(r.Int64N(int64(hi-lo)))
}

func pick[T any](r draw, from ...T) T { return from[r.IntN(len(from))] }

// weighted draws one of the words by weight.
func (r draw) weighted(words []weight) string {
	sum := 0.0
	for _, w := range words {
		sum += w.of
	}
	x := r.Float64() * sum
	for _, w := range words {
		if x -= w.of; x < 0 {
			return w.word
		}
	}
	return words[len(words)-1].word
}

type weight struct {
	word string
	of   float64
}
