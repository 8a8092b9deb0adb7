package sandbox

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

const (
	maxQueued = 1000
	maxTimes  = 1_000_000
)

// Match selects requests; empty fields match all.
type Match struct {
	Service string `json:"service,omitempty"`
	Method  string `json:"method,omitempty"`
	// Path is the whole path, or its beginning if it ends in *. The query does not count.
	Path string `json:"path,omitempty"`
	// Key is the key as received. A queued refuse sees only keys outside the body, for it
	// acts before the body is read.
	Key string `json:"key,omitempty"`
}

func (m Match) matches(service, method, path, key string) bool {
	prefix, isPrefix := strings.CutSuffix(m.Path, "*")
	return (m.Service == "" || m.Service == service) && (m.Method == "" || m.Method == method) && (m.Key == "" || m.Key == key) &&
		(m.Path == "" || m.Path == path || isPrefix && strings.HasPrefix(path, prefix))
}

// QueuedFault waits for requests of clients that cannot set a header. Of several that
// match, the oldest is taken. A request that names its own fault takes none.
type QueuedFault struct {
	Seq   int64 `json:"seq"`
	Match Match `json:"match"`
	// Line is the fault line. On a read, one that only fits a request with an effect waits on.
	Line string `json:"line"`
	// Times is how many more requests get it; 0 means 1 when it is added.
	Times int `json:"times"`
}

// AddFault queues a fault and returns its seq. The queue survives a restart.
func (s *Sandbox) AddFault(q QueuedFault) (int64, error) {
	f, err := ParseFault(q.Line)
	if err != nil {
		return 0, err
	}
	if q.Times == 0 {
		q.Times = 1
	}
	switch {
	case q.Times < 0 || q.Times > maxTimes:
		return 0, invalid("times", "want 1 to %d", maxTimes)
	case q.Match.Service != "" && !known(q.Match.Service):
		return 0, invalid("match.service", "no such service")
	case len(q.Match.Path) > 2048 || len(q.Match.Key) > maxKey || len(q.Match.Method) > 16:
		return 0, invalid("match", "a value is too long")
	}
	match, err := json.Marshal(q.Match)
	if err != nil {
		return 0, fmt.Errorf("queue fault: %w", err)
	}
	var seq int64
	err = s.ledger.write(s.ledger.durable, func(tx *sql.Tx) error {
		var queued int
		if err := tx.QueryRow(`SELECT count(*) FROM faults`).Scan(&queued); err != nil {
			return err
		}
		if queued >= maxQueued {
			return rejected(409, "queue_full", "%d faults are queued already", queued)
		}
		r, err := tx.Exec(`INSERT INTO faults (match, line, times) VALUES (?, ?, ?)`, string(match), f.String(), q.Times)
		if err != nil {
			return err
		}
		seq, err = r.LastInsertId()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("queue fault: %w", err)
	}
	return seq, nil
}

// Faults lists the queue.
func (s *Sandbox) Faults() ([]QueuedFault, error) { return queuedFaults(s.ledger.reads) }

func queuedFaults(q queryer) ([]QueuedFault, error) {
	rows, err := q.Query(`SELECT seq, match, line, times FROM faults ORDER BY seq`)
	return collect(rows, err, func(f *QueuedFault, scan func(...any) error) error {
		var match string
		if err := scan(&f.Seq, &match, &f.Line, &f.Times); err != nil {
			return err
		}
		return json.Unmarshal([]byte(match), &f.Match)
	})
}

// ClearFaults empties the queue and ends every lie.
func (s *Sandbox) ClearFaults() error {
	err := s.ledger.write(s.ledger.durable, func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM faults; DELETE FROM lies;`)
		return err
	})
	if err != nil {
		return fmt.Errorf("clear faults: %w", err)
	}
	return nil
}

// takeFault takes the oldest queued fault that fits the request: before the body is read
// only a refusal, afterwards anything else.
func (x *exchange) takeFault(tx *sql.Tx, head bool) error {
	queue, err := queuedFaults(tx)
	if err != nil {
		return err
	}
	for _, q := range queue {
		f, err := ParseFault(q.Line)
		if err != nil {
			return fmt.Errorf("queued fault %d: %w", q.Seq, err)
		}
		if (f.ending == endRefuse) != head || f.needsEffect() != "" && !x.write() ||
			!q.Match.matches(x.ep.service, x.r.Method, x.r.URL.Path, x.key) {
			continue
		}
		x.fault = f
		if q.Times > 1 {
			_, err = tx.Exec(`UPDATE faults SET times = times - 1 WHERE seq = ?`, q.Seq)
		} else {
			_, err = tx.Exec(`DELETE FROM faults WHERE seq = ?`, q.Seq)
		}
		return err
	}
	return nil
}

// armLie makes the next reads of a service find nothing.
func armLie(tx *sql.Tx, service string, f Fault, now time.Time) error {
	_, err := tx.Exec(`INSERT INTO lies (service, reads, until) VALUES (?, ?, ?)
		ON CONFLICT (service) DO UPDATE SET reads = excluded.reads, until = excluded.until`,
		service, f.lieReads, micros(now.Add(f.lieFor)))
	return err
}

// countLie reports whether a read is lied to, and counts it.
func countLie(tx *sql.Tx, service string, now time.Time) (bool, error) {
	r, err := tx.Exec(`UPDATE lies SET reads = max(0, reads - 1) WHERE service = ? AND (reads > 0 OR until > ?)`, service, micros(now))
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n > 0, err
}
