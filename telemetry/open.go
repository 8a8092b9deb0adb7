package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl"
)

// open collects what is open in the store at the moment of a scrape, whoever began it. Counts
// and ages are of all open operations: the store sums them up.
type open struct {
	store pawl.Store
	tool  func(string) string
}

const (
	// maxOpen bounds the operations whose keys one scrape looks at: the newest of those that
	// are open, and the oldest of each tool and status.
	maxOpen = 1000
	// scrapeTime bounds the time that a scrape may take of the store.
	scrapeTime = 5 * time.Second
)

var (
	openCount     = prometheus.NewDesc("pawl_open_operations", "Operations that are open, by status and by lane: a call's own turn, the background, or a person's review.", []string{"tool", "status", "lane"}, nil)
	openOldest    = prometheus.NewDesc("pawl_open_oldest_age_seconds", "Age of the oldest open operation.", []string{"tool", "lane"}, nil)
	reviewOldest  = prometheus.NewDesc("pawl_review_oldest_age_seconds", "Time for which a person has been asked about the operation that waits longest.", []string{"tool"}, nil)
	sweepLag      = prometheus.NewDesc("pawl_sweeper_lag_seconds", "Time for which the operation that has waited longest for a sweeper has been due; 0 if none is due.", []string{"tool"}, nil)
	pendingStale  = prometheus.NewDesc("pawl_pending_stale", "PENDING operations whose worker's lease has ended: UNKNOWN that nobody has taken over yet.", []string{"tool"}, nil)
	retentionLeft = prometheus.NewDesc("pawl_key_retention_remaining_seconds", "Time until the key of the tightest open operation may be forgotten by its provider; negative once it is over.", []string{"tool"}, nil)
	openComplete  = prometheus.NewDesc("pawl_open_complete", "1 if the key of every open operation was looked at, 0 if there are more than a scrape looks at or the store did not answer.", nil, nil)
)

func (o *open) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{openCount, openOldest, reviewOldest, sweepLag, pendingStale, retentionLeft, openComplete} {
		ch <- d
	}
}

type lane struct{ tool, lane string }

// laneOf says who works on operations now.
func laneOf(t *pawl.Tally) string {
	switch {
	case t.Review:
		return "review"
	case t.Status == pawl.Unknown:
		return "background"
	default:
		return "turn"
	}
}

func (o *open) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	now, err := o.store.Now(ctx)
	var sums []pawl.Tally
	if err == nil {
		sums, err = o.store.Tally(ctx)
	}
	if err != nil {
		gauge(openComplete, 0)
		return
	}
	since := func(at time.Time) time.Duration { return max(0, now.Sub(at)) }
	counts := map[[3]string]int{}
	oldest := map[lane]time.Duration{}
	asked, lag, left := map[string]time.Duration{}, map[string]time.Duration{}, map[string]time.Duration{}
	stale := map[string]int{}
	all := 0
	for i := range sums {
		t := &sums[i]
		tool, in := o.tool(t.Tool), laneOf(t)
		all += t.Count
		counts[[3]string{tool, string(t.Status), in}] += t.Count
		oldest[lane{tool, in}] = max(oldest[lane{tool, in}], since(t.Oldest.Created))
		lag[tool] = max(lag[tool], 0)
		if !t.Due.IsZero() {
			lag[tool] = max(lag[tool], since(t.Due))
		}
		if t.Review {
			asked[tool] = max(asked[tool], since(t.Asked))
		}
		if t.Status == pawl.Pending && t.Unheld > 0 {
			stale[tool] += t.Unheld
		}
		o.tighten(left, t.Oldest, now)
	}
	whole := all == len(sums) // the oldest are all there is
	if !whole {
		newest, err := o.store.Find(ctx, pawl.Query{AllTenants: true, Open: true, Limit: maxOpen})
		for _, op := range newest {
			o.tighten(left, op, now)
		}
		whole = err == nil && len(newest) < maxOpen
	}
	for k, n := range counts {
		gauge(openCount, float64(n), k[0], k[1], k[2])
	}
	for k, age := range oldest {
		gauge(openOldest, age.Seconds(), k.tool, k.lane)
	}
	for tool, n := range stale {
		gauge(pendingStale, float64(n), tool)
	}
	for d, of := range map[*prometheus.Desc]map[string]time.Duration{reviewOldest: asked, sweepLag: lag, retentionLeft: left} {
		for tool, age := range of {
			gauge(d, age.Seconds(), tool)
		}
	}
	gauge(openComplete, map[bool]float64{true: 1}[whole])
}

// tighten takes an operation's key into account: its life at the provider counts from the
// first permit.
func (o *open) tighten(left map[string]time.Duration, op *pawl.Operation, now time.Time) {
	if op.Contract == nil || op.Contract.Retention <= 0 || len(op.Attempts) == 0 {
		return
	}
	tool := o.tool(op.Tool)
	d := op.Attempts[0].Permit.Add(op.Contract.Retention).Sub(now)
	if was, ok := left[tool]; !ok || d < was {
		left[tool] = d
	}
}
