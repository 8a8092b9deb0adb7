package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
)

// The services of a sandbox.
const (
	Charges  = "charges"
	Refunds  = "refunds"
	Bookings = "bookings"
	Tickets  = "tickets"
	Emails   = "emails"
	VMs      = "vms"
	Stock    = "stock"
	Orders   = "orders"
)

// Services lists every service.
func Services() []string {
	return []string{Charges, Refunds, Bookings, Tickets, Emails, VMs, Stock, Orders}
}

// Mode is the contract that a service keeps: how it treats keys, errors and reads.
// Every field counts as it stands; start from DefaultMode. In JSON, durations are text
// such as "24h".
type Mode struct {
	// Keys is honoured, or ignored: a key is taken and does nothing.
	Keys string
	// Carrier says where the key is: header, body (a top-level field) or query.
	Carrier string
	// Name is the header, field or parameter of the key.
	Name string
	// Required refuses a write without a key: 400 key_required.
	Required bool
	// OnMismatch answers a known key that comes with another request: 422 or 409 (code
	// key_mismatch), or ignore (the recorded answer is returned all the same).
	OnMismatch string
	// OnInFlight answers a key whose first request is still worked on: 409 (code
	// key_in_flight), or wait until it is done.
	OnInFlight string
	// OnDuplicate answers a key whose work is done: replay (the recorded answer and
	// the header Idempotent-Replayed: true), latest (200 with the object as it is now), or
	// conflict (409 key_conflict, whose error.resource_id names the first one's object).
	OnDuplicate string
	// OnError says what a key remembers of a failure: complete (done work is remembered
	// as done whatever was answered, failed work may be tried again), replay (the error is
	// recorded and replayed, also where the work was done), or forget (only a 2xx answer is
	// remembered, so that work answered with an error is done again).
	OnError string
	// Retention is how long a key is remembered, counted from its first request.
	Retention time.Duration
	// Tombstone is how long a cancelled key is refused; 0 means that it is not: a later
	// arrival is carried out. Only the service stock cancels keys.
	Tombstone time.Duration
	// Landing is how long accepted work takes: more than 0 makes creating an object answer
	// 202 with status pending.
	Landing time.Duration
	// Lag is how long after landing an object stays out of lists. A read by id has none.
	Lag time.Duration
	// ShowsPending: lists also show objects that have not landed; Lag then counts from
	// their acceptance.
	ShowsPending bool
}

// Values of Mode's fields.
const (
	KeysHonoured = "honoured"
	KeysIgnored  = "ignored"

	CarrierHeader = "header"
	CarrierBody   = "body"
	CarrierQuery  = "query"

	OnMismatch422    = "422"
	OnMismatch409    = "409"
	OnMismatchIgnore = "ignore"

	OnInFlight409  = "409"
	OnInFlightWait = "wait"

	OnDuplicateReplay   = "replay"
	OnDuplicateLatest   = "latest"
	OnDuplicateConflict = "conflict"

	OnErrorComplete = "complete"
	OnErrorReplay   = "replay"
	OnErrorForget   = "forget"
)

// DefaultMode returns the mode a service starts with: keys in the header
// Idempotency-Key, honoured for 24 hours, a mismatch 422, in flight 409, duplicates
// replayed and errors complete, except that
//
//   - tickets, emails and orders ignore keys, and tickets are found 5 s late;
//   - vms take the key as the body field client_token, land after 5 s and are listed 40 s
//     later (the documented maximum is 60 s);
//   - stock requires a key, keeps it and a tombstone for 30 days.
//
// A guise starts with what its provider documents.
func DefaultMode(service string) Mode {
	for _, g := range guises() {
		if g.name == service {
			return g.mode
		}
	}
	m := honoured()
	switch service {
	case Tickets:
		m.Keys, m.Lag = KeysIgnored, 5*time.Second
	case Emails, Orders:
		m.Keys = KeysIgnored
	case VMs:
		m.Carrier, m.Name = CarrierBody, "client_token"
		m.Landing, m.Lag = 5*time.Second, 40*time.Second
	case Stock:
		m.Required = true
		m.Retention, m.Tombstone = 30*24*time.Hour, 30*24*time.Hour
	}
	return m
}

// honoured is the mode of a key in the header Idempotency-Key that is honoured for a day.
func honoured() Mode {
	return Mode{
		Keys: KeysHonoured, Carrier: CarrierHeader, Name: "Idempotency-Key",
		OnMismatch: OnMismatch422, OnInFlight: OnInFlight409, OnDuplicate: OnDuplicateReplay, OnError: OnErrorComplete,
		Retention: 24 * time.Hour,
	}
}

// validate reports every field that holds none of its values.
func (m Mode) validate() error {
	var errs []error
	oneOf := func(field, got string, want ...string) {
		if !slices.Contains(want, got) {
			errs = append(errs, fmt.Errorf("%s: %q is none of %q", field, got, want))
		}
	}
	oneOf("keys", m.Keys, KeysHonoured, KeysIgnored)
	oneOf("carrier", m.Carrier, CarrierHeader, CarrierBody, CarrierQuery)
	oneOf("on_mismatch", m.OnMismatch, OnMismatch422, OnMismatch409, OnMismatchIgnore)
	oneOf("on_in_flight", m.OnInFlight, OnInFlight409, OnInFlightWait)
	oneOf("on_duplicate", m.OnDuplicate, OnDuplicateReplay, OnDuplicateLatest, OnDuplicateConflict)
	oneOf("on_error", m.OnError, OnErrorComplete, OnErrorReplay, OnErrorForget)
	if !keyName(m.Name) {
		errs = append(errs, errors.New("name: want 1 to 64 of letters, digits, - and _"))
	}
	for _, d := range []struct {
		name string
		d    time.Duration
		low  time.Duration
	}{
		{"retention", m.Retention, time.Second}, {"tombstone", m.Tombstone, 0}, {"landing", m.Landing, 0}, {"lag", m.Lag, 0},
	} {
		if d.d < d.low || d.d > maxLanding {
			errs = append(errs, fmt.Errorf("%s: %s is not between %s and %s", d.name, plain(d.d), plain(d.low), plain(maxLanding)))
		}
	}
	return errors.Join(errs...)
}

func keyName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// modeJSON is Mode as it is written.
type modeJSON struct {
	Keys         string `json:"keys"`
	Carrier      string `json:"carrier"`
	Name         string `json:"name"`
	Required     bool   `json:"required"`
	OnMismatch   string `json:"on_mismatch"`
	OnInFlight   string `json:"on_in_flight"`
	OnDuplicate  string `json:"on_duplicate"`
	OnError      string `json:"on_error"`
	Retention    string `json:"retention"`
	Tombstone    string `json:"tombstone"`
	Landing      string `json:"landing"`
	Lag          string `json:"lag"`
	ShowsPending bool   `json:"shows_pending"`
}

// MarshalJSON writes every field.
func (m Mode) MarshalJSON() ([]byte, error) {
	return json.Marshal(modeJSON{
		m.Keys, m.Carrier, m.Name, m.Required, m.OnMismatch, m.OnInFlight, m.OnDuplicate, m.OnError,
		plain(m.Retention), plain(m.Tombstone), plain(m.Landing), plain(m.Lag), m.ShowsPending,
	})
}

// UnmarshalJSON changes the fields that are given and leaves the others. An unknown
// field or value is an error.
func (m *Mode) UnmarshalJSON(raw []byte) error {
	if _, err := pawl.ParseJSON(raw); err != nil {
		return err
	}
	j := modeJSON{
		m.Keys, m.Carrier, m.Name, m.Required, m.OnMismatch, m.OnInFlight, m.OnDuplicate, m.OnError,
		m.Retention.String(), m.Tombstone.String(), m.Landing.String(), m.Lag.String(), m.ShowsPending,
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&j); err != nil {
		return err
	}
	next := Mode{
		Keys: j.Keys, Carrier: j.Carrier, Name: j.Name, Required: j.Required, OnMismatch: j.OnMismatch,
		OnInFlight: j.OnInFlight, OnDuplicate: j.OnDuplicate, OnError: j.OnError, ShowsPending: j.ShowsPending,
	}
	for _, d := range []struct {
		name string
		text string
		to   *time.Duration
	}{
		{"retention", j.Retention, &next.Retention}, {"tombstone", j.Tombstone, &next.Tombstone},
		{"landing", j.Landing, &next.Landing}, {"lag", j.Lag, &next.Lag},
	} {
		v, err := time.ParseDuration(d.text)
		if err != nil {
			return fmt.Errorf("%s: want a duration such as 24h", d.name)
		}
		*d.to = v
	}
	if err := next.validate(); err != nil {
		return err
	}
	*m = next
	return nil
}
