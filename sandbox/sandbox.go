package sandbox

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Options of Open; nil and zero fields mean the defaults.
type Options struct {
	// Ledger is the path of the ledger's own SQLite file, made if it does not exist. Empty
	// means a temporary file that Close removes. One sandbox uses a ledger at a time.
	Ledger string
	// Clock is the time that advances are added to. Nil means time.Now.
	Clock func() time.Time
	// Log gets what an operator should know. Nil means no log.
	Log *slog.Logger
	// Modes replaces the modes of the named services, also those that the ledger keeps from
	// an earlier run.
	Modes map[string]Mode
	// NoDemo leaves a new ledger without the demo orders.
	NoDemo bool
	// AdminToken, if not empty, is the bearer token that /admin asks for.
	AdminToken string
	// MaxInFlight is the largest number of requests worked on at a time, held and delayed
	// ones included; more are answered 503 busy with nothing done. 0 means 1024.
	MaxInFlight int
	// MaxRequests is the number of requests that the ledger holds; more are answered 507
	// ledger_full with nothing done. 0 means 1,000,000.
	MaxRequests int64
}

// Sandbox is a pretend provider. All methods are safe for concurrent use.
type Sandbox struct {
	log         *slog.Logger
	ledger      *ledger
	clock       clock
	adminToken  string
	slots       chan struct{}
	maxRequests int64
	holds       *holds
	tempDir     string

	setting sync.Mutex // held by the one change of modes that is under way

	mu    sync.RWMutex // never held while the ledger is written, which reads modes
	modes map[string]Mode

	closing sync.Once
	closed  chan struct{}
	working sync.WaitGroup
	failed  error // of closing
}

// Open opens or makes a ledger and returns the provider that writes it.
func Open(o *Options) (_ *Sandbox, err error) {
	if o == nil {
		o = &Options{}
	}
	for name, m := range o.Modes {
		if !known(name) {
			return nil, fmt.Errorf("open sandbox: modes: no service %q", name)
		}
		if err := m.validate(); err != nil {
			return nil, fmt.Errorf("open sandbox: modes: %s: %w", name, err)
		}
	}
	if o.MaxInFlight < 0 || o.MaxRequests < 0 {
		return nil, errors.New("open sandbox: a limit is negative")
	}
	s := &Sandbox{
		log:         o.Log,
		clock:       clock{base: o.Clock, changed: make(chan struct{})},
		adminToken:  o.AdminToken,
		maxRequests: o.MaxRequests,
		holds:       newHolds(),
		closed:      make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.clock.base == nil {
		s.clock.base = time.Now
	}
	if s.maxRequests == 0 {
		s.maxRequests = 1_000_000
	}
	s.slots = make(chan struct{}, 1024)
	if o.MaxInFlight > 0 {
		s.slots = make(chan struct{}, o.MaxInFlight)
	}
	path := o.Ledger
	if path == "" {
		if s.tempDir, err = os.MkdirTemp("", "pawl-sandbox-"); err != nil {
			return nil, fmt.Errorf("open sandbox: %w", err)
		}
		path = filepath.Join(s.tempDir, "ledger.db")
	}
	if s.ledger, err = openLedger(path); err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger: %w", err), s.removeTemp())
	}
	if err := s.load(o); err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger: %w", err), s.Close())
	}
	return s, nil
}

// load reads what the ledger keeps beside effects and requests, and writes what o sets.
func (s *Sandbox) load(o *Options) error {
	return s.ledger.write(s.ledger.durable, func(tx *sql.Tx) error {
		var us int64
		if err := tx.QueryRow(`SELECT value FROM settings WHERE name = 'clock_offset'`).Scan(&us); err != nil {
			return err
		}
		s.clock.offset = time.Duration(us) * time.Microsecond
		s.modes = map[string]Mode{}
		for _, name := range append(Services(), Guises()...) {
			m := DefaultMode(name)
			var text string
			switch err := tx.QueryRow(`SELECT mode FROM modes WHERE service = ?`, name).Scan(&text); {
			case err == nil:
				if err := json.Unmarshal([]byte(text), &m); err != nil {
					return fmt.Errorf("mode of %s: %w", name, err)
				}
			case !errors.Is(err, sql.ErrNoRows):
				return err
			}
			if given, ok := o.Modes[name]; ok {
				m = given
				if err := storeMode(tx, name, m); err != nil {
					return err
				}
			}
			s.modes[name] = m
		}
		var ids int64
		if err := tx.QueryRow(`SELECT value FROM settings WHERE name = 'next_id'`).Scan(&ids); err != nil {
			return err
		}
		if ids > firstID || o.NoDemo {
			return nil
		}
		return s.seed(tx, demoOrders())
	})
}

// Close ends every wait, waits for requests to be done, and closes the ledger. The
// listeners that handlers of this sandbox serve should be closed before.
func (s *Sandbox) Close() error {
	s.closing.Do(func() {
		s.mu.Lock() // no request begins once closed is
		close(s.closed)
		s.mu.Unlock()
		s.working.Wait()
		s.failed = errors.Join(s.ledger.close(), s.removeTemp())
	})
	return s.failed
}

func (s *Sandbox) removeTemp() error {
	if s.tempDir == "" {
		return nil
	}
	return os.RemoveAll(s.tempDir)
}

// Modes returns the mode of every service.
func (s *Sandbox) Modes() map[string]Mode {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.Clone(s.modes)
}

// SetModes replaces the modes of the named services, all or none. They survive a restart.
func (s *Sandbox) SetModes(modes map[string]Mode) error {
	for name, m := range modes {
		if !known(name) {
			return fmt.Errorf("set modes: no service %q", name)
		}
		if err := m.validate(); err != nil {
			return fmt.Errorf("set modes: %s: %w", name, err)
		}
	}
	s.setting.Lock()
	defer s.setting.Unlock()
	err := s.ledger.write(s.ledger.durable, func(tx *sql.Tx) error {
		for name, m := range modes {
			if err := storeMode(tx, name, m); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("set modes: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.modes, modes)
	return nil
}

func storeMode(tx *sql.Tx, service string, m Mode) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO modes (service, mode) VALUES (?, ?) ON CONFLICT (service) DO UPDATE SET mode = excluded.mode`,
		service, string(text))
	return err
}

func (s *Sandbox) mode(service string) Mode {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.modes[service]
}

// Reset forgets objects, effects, requests, keys, tombstones, faults and lies, and makes
// the demo orders again unless demo is false. Modes and the clock stay, and no number is
// used twice.
func (s *Sandbox) Reset(demo bool) error {
	err := s.ledger.write(s.ledger.durable, func(tx *sql.Tx) error {
		for _, table := range []string{"effects", "requests", "keys", "tombstones", "versions", "terms", "objects", "faults", "lies", "pawl_receipts"} {
			if _, err := tx.Exec(`DELETE FROM ` + table); err != nil {
				return err
			}
		}
		if demo {
			return s.seed(tx, demoOrders())
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reset ledger: %w", err)
	}
	return nil
}

// begin counts a request as worked on. It reports false once the sandbox is closing.
func (s *Sandbox) begin() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	select {
	case <-s.closed:
		return false
	default:
		s.working.Add(1)
		return true
	}
}

var _ http.Handler = (*handler)(nil)
