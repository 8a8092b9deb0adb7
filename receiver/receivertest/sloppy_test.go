package receivertest_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/receiver"
)

// faults of services as they are often written, each with the vector that finds it. All of
// them keep key and effect in two transactions, and so fail V12 too.
var faults = map[string]string{
	"two_transactions": "V12", "unscoped": "V07", "reexecute_5xx": "V09b", "ignore_mismatch": "V04",
	"memory_claims": "V12b", "no_tombstone": "V11",
}

// claim is what a faulty service remembers of a key.
type claim struct {
	fingerprint, body string
	status            int
	expires           int64
}

// sloppy is middleware with one of the faults.
func (s *shop) sloppy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, err := receiver.ParseKey(r.Header, false)
		if err != nil {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(400)
			return
		}
		id := r.Header.Get("Authorization") + " " + r.URL.Path + " " + key
		if s.fault == "unscoped" {
			id = r.URL.Path + " " + key
		}
		fingerprint := payload(r)
		s.mu.Lock() // one at a time is enough here
		defer s.mu.Unlock()
		if c, known := s.known(r.Context(), id); known {
			replayClaim(w, c, c.fingerprint == fingerprint || s.fault == "ignore_mismatch")
			return
		}
		out := &held{header: http.Header{}, status: 200}
		next.ServeHTTP(out, r)
		c := claim{fingerprint, out.body.String(), out.status, time.Now().Add(2 * time.Second).UnixMilli()}
		switch {
		case s.fault == "reexecute_5xx" && out.status >= 500:
		case r.Header.Get("Receiver-Drill") == "record":
			http.Error(w, "the record failed", 500)
			return
		default:
			if err := s.remember(r.Context(), id, c); err != nil {
				http.Error(w, err.Error(), 500)
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(out.status)
		io.WriteString(w, c.body)
	})
}

func replayClaim(w http.ResponseWriter, c claim, matches bool) {
	switch {
	case time.Now().UnixMilli() > c.expires:
		w.WriteHeader(409)
	case !matches:
		w.WriteHeader(422)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Idempotent-Replayed", "true")
		w.WriteHeader(c.status)
		io.WriteString(w, c.body)
	}
}

// payload is a digest of what a request asks for.
func payload(r *http.Request) string {
	body, _ := io.ReadAll(r.Body)
	var v any
	_ = json.Unmarshal(body, &v)
	canonical, _ := json.Marshal(v)
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

func (s *shop) remember(ctx context.Context, id string, c claim) error {
	if s.fault == "memory_claims" {
		s.claims[id] = c
		return nil
	}
	_, err := s.db.ExecContext(ctx, s.q(`INSERT INTO sloppy (id, fingerprint, status, body, expires) VALUES ($1, $2, $3, $4, $5)`),
		id, c.fingerprint, c.status, c.body, c.expires)
	return err
}

func (s *shop) known(ctx context.Context, id string) (c claim, known bool) {
	if s.fault == "memory_claims" {
		c, known = s.claims[id]
	} else {
		err := s.db.QueryRowContext(ctx, s.q(`SELECT fingerprint, body, status, expires FROM sloppy WHERE id = $1`), id).Scan(&c.fingerprint, &c.body, &c.status, &c.expires)
		known = err == nil
	}
	if known && s.fault == "no_tombstone" && time.Now().UnixMilli() > c.expires {
		_, err := s.db.ExecContext(ctx, s.q(`DELETE FROM sloppy WHERE id = $1`), id)
		return c, err != nil
	}
	return c, known
}

// held is an answer that waits for its record.
type held struct {
	header http.Header
	status int
	body   strings.Builder
}

func (h *held) Header() http.Header         { return h.header }
func (h *held) WriteHeader(status int)      { h.status = status }
func (h *held) Write(b []byte) (int, error) { return h.body.Write(b) }
