package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl"
)

// open collects what is open in the store at the moment of a scrape, whoever began it.
type open struct {
	store pawl.Store
	tool  func(string) string
}

const (
	// maxOpen bounds the operations that one scrape looks at, newest first.
	maxOpen = 5000
	// scrapeTime bounds the time that a scrape may take of the store.
	scrapeTime = 5 * time.Second
)

var (
	openCount     = prometheus.NewDesc("pawl_open_operations", "Operations that are open, by status and by lane: a call's own turn, the background, or a person's review.", []string{"tool", "status", "lane"}, nil)
	openOldest    = prometheus.NewDesc("pawl_open_oldest_age_seconds", "Age of the oldest open operation.", []string{"tool", "lane"}, nil)
	pendingStale  = prometheus.NewDesc("pawl_pending_stale", "PENDING operations whose worker's lease has ended: UNKNOWN that nobody has taken over yet.", []string{"tool"}, nil)
	retentionLeft = prometheus.NewDesc("pawl_key_retention_remaining_seconds", "Time until the key of the tightest open operation may be forgotten by its provider; negative once it is over.", []string{"tool"}, nil)
	openComplete  = prometheus.NewDesc("pawl_open_complete", "1 if every open operation was looked at, 0 if there are more than a scrape looks at or the store did not answer.", nil, nil)
)

func (o *open) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{openCount, openOldest, pendingStale, retentionLeft, openComplete} {
		ch <- d
	}
}

type lane struct{ tool, lane string }

func (o *open) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	counts := map[[3]string]int{}
	oldest := map[lane]time.Time{}
	stale := map[string]int{}
	left := map[string]time.Duration{}
	now, err := o.store.Now(ctx)
	complete := err == nil
	q := pawl.Query{AllTenants: true, Open: true, Limit: 1000}
	for seen := 0; complete; {
		ops, err := o.store.Find(ctx, q)
		if err != nil {
			complete = false
			break
		}
		for _, op := range ops {
			tool := o.tool(op.Tool)
			in := "turn"
			switch {
			case !op.Review.IsZero():
				in = "review"
			case op.Status == pawl.Unknown:
				in = "background"
			}
			counts[[3]string{tool, string(op.Status), in}]++
			if at, ok := oldest[lane{tool, in}]; !ok || op.Created.Before(at) {
				oldest[lane{tool, in}] = op.Created
			}
			if op.Status == pawl.Pending && op.Lease.Before(now) {
				stale[tool]++
			}
			if op.Contract != nil && op.Contract.Retention > 0 && len(op.Attempts) > 0 {
				d := op.Attempts[0].Permit.Add(op.Contract.Retention).Sub(now)
				if was, ok := left[tool]; !ok || d < was {
					left[tool] = d
				}
			}
		}
		if len(ops) < q.Limit {
			break
		}
		if seen += len(ops); seen >= maxOpen {
			complete = false
			break
		}
		q.Before = ops[len(ops)-1].ID
	}
	for k, n := range counts {
		ch <- prometheus.MustNewConstMetric(openCount, prometheus.GaugeValue, float64(n), k[0], k[1], k[2])
	}
	for k, at := range oldest {
		ch <- prometheus.MustNewConstMetric(openOldest, prometheus.GaugeValue, max(0, now.Sub(at).Seconds()), k.tool, k.lane)
	}
	for tool, n := range stale {
		ch <- prometheus.MustNewConstMetric(pendingStale, prometheus.GaugeValue, float64(n), tool)
	}
	for tool, d := range left {
		ch <- prometheus.MustNewConstMetric(retentionLeft, prometheus.GaugeValue, d.Seconds(), tool)
	}
	whole := 0.0
	if complete {
		whole = 1
	}
	ch <- prometheus.MustNewConstMetric(openComplete, prometheus.GaugeValue, whole)
}
