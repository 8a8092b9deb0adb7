package sandbox

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// work is one request being carried out inside the ledger's transaction. An endpoint
// reads its form first, then decides, then writes.
type work struct {
	tx   *sql.Tx
	now  time.Time
	mode Mode
	form *form
	// id is the object in the path, if there is one.
	id string
	// key is the key if the service honours it, or empty.
	key string
	// notAfter is the header Pawl-Not-After, or zero.
	notAfter time.Time
	// busy is how long the service works on it, landing how long accepted work takes.
	busy, landing time.Duration
	// effect has the request's own fields set.
	effect Effect
}

// result is what an endpoint did.
type result struct {
	// status is that of the answer; a created object that has not landed makes it 202.
	status int
	// service and id name the object that is answered.
	service, id string
	// created is the new object, nil where an existing one was changed or read.
	created *object
	// effect is the ledger's row, nil where nothing changed.
	effect *Effect
	// raw is the answer where no object is; the object is answered otherwise.
	raw json.RawMessage
}

// lands is when the work takes hold.
func (w *work) lands() time.Time { return w.now.Add(w.busy + w.landing) }

// create makes a new object and its effect. Doc must hold the id.
func (w *work) create(service, id, kind, subject string, minor int64, currency string, doc any, terms []term) (*result, error) {
	terms = append(terms, term{"key", w.key})
	o := &object{
		service: service, id: id, at: w.now, hidden: w.now.Add(w.busy), landed: w.lands(), doc: doc, terms: terms,
	}
	if err := insertObject(w.tx, o); err != nil {
		return nil, err
	}
	effect, err := w.record(service, id, kind, subject, minor, currency)
	if err != nil {
		return nil, err
	}
	status := 201
	if w.landing > 0 {
		status = 202
	}
	return &result{status: status, service: service, id: id, created: o, effect: effect}, nil
}

// change gives an object a new state and records the effect.
func (w *work) change(st standing, service, id, kind, subject string, minor int64, currency string, doc any) (*result, error) {
	if err := changeObject(w.tx, st.seq, w.lands(), doc); err != nil {
		return nil, err
	}
	effect, err := w.record(service, id, kind, subject, minor, currency)
	if err != nil {
		return nil, err
	}
	status := 200
	if w.landing > 0 {
		status = 202
	}
	return &result{status: status, service: service, id: id, effect: effect}, nil
}

// record writes the ledger's row.
func (w *work) record(service, id, kind, subject string, minor int64, currency string) (*Effect, error) {
	e := w.effect
	e.At, e.LandAt = w.now, w.lands()
	e.Service, e.Kind, e.ObjectID, e.Subject, e.Amount, e.Currency = service, kind, id, subject, minor, currency
	if err := insertEffect(w.tx, &e); err != nil {
		return nil, err
	}
	return &e, nil
}

// reverse marks the effect of the given kind on an object as undone by another.
func (w *work) reverse(service, id, kind string, by *Effect) error {
	_, err := w.tx.Exec(`UPDATE effects SET reversed_by = ? WHERE service = ? AND object_id = ? AND kind = ?`, by.Seq, service, id, kind)
	return err
}

// load reads the object that a request is about. What does not exist, or is still hidden
// from everyone, is 404; what has not landed or has failed is 409 not_ready.
func (w *work) load(service, id string, doc any) (standing, error) {
	st, err := loadObject(w.tx, service, id, doc)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return st, notFound(service, id)
	case err != nil:
		return st, err
	case st.failed || st.landed.After(w.now):
		return st, rejected(409, "not_ready", "%s %s has not landed", service, clip(id))
	}
	return st, nil
}

// endpoint is one method and path of a service.
type endpoint struct {
	service string
	method  string
	path    string
	// act carries a write out; nil for a read.
	act func(*work) (*result, error)
	// creates: act makes a new object, so that the mode's Landing applies.
	creates bool
	// objects is whose objects are read where it is not the service's own name.
	objects string
	// convergent writes take no key: the same request again changes nothing.
	convergent bool
	// list names the terms that a list can be filtered by; nil for a read of one object.
	list []string
	// metadata: lists can also be filtered by metadata.NAME.
	metadata bool
	// guise is the provider whose words are used, guiseRead its read; nil for a service.
	guise     *guise
	guiseRead *guiseRead
	// received writes are carried out once by pawl's receiver and not by the mode; record
	// reads what it knows of the key {id}, and fences it.
	received, record bool
	// asks tells apart the endpoints of one method and path; nil is every request.
	asks func(r *http.Request, body []byte) bool
}

func (e *endpoint) pattern() string { return fmt.Sprintf("%s %s", e.method, e.path) }

// endpoints lists everything that the services offer.
func endpoints() []endpoint {
	return append(guiseEndpoints(), []endpoint{
		{service: Charges, method: "POST", path: "/v1/charges", act: createCharge, creates: true},
		{service: Charges, method: "GET", path: "/v1/charges", list: []string{"key", "order_id"}, metadata: true},
		{service: Charges, method: "GET", path: "/v1/charges/{id}"},
		{service: Refunds, method: "POST", path: "/v1/refunds", act: createRefund, creates: true},
		{service: Refunds, method: "GET", path: "/v1/refunds", list: []string{"key", "order_id", "charge_id"}, metadata: true},
		{service: Refunds, method: "GET", path: "/v1/refunds/{id}"},
		{service: Bookings, method: "POST", path: "/v1/bookings", act: createBooking, creates: true},
		{service: Bookings, method: "GET", path: "/v1/bookings", list: []string{"key", "ref", "item", "traveller"}, metadata: true},
		{service: Bookings, method: "GET", path: "/v1/bookings/{id}"},
		{service: Bookings, method: "POST", path: "/v1/bookings/{id}/cancel", act: cancelBooking},
		{service: Tickets, method: "POST", path: "/v1/tickets", act: createTicket, creates: true},
		{service: Tickets, method: "GET", path: "/v1/tickets", list: []string{"key", "ext_ref", "project", "marker"}, metadata: true},
		{service: Tickets, method: "GET", path: "/v1/tickets/{id}"},
		{service: Tickets, method: "POST", path: "/v1/tickets/{id}/close", act: closeTicket},
		{service: Emails, method: "POST", path: "/v1/emails", act: sendEmail, creates: true},
		{service: VMs, method: "POST", path: "/v1/vms", act: createVM, creates: true},
		{service: VMs, method: "GET", path: "/v1/vms", list: []string{"key", "cluster", "name", "tag"}},
		{service: VMs, method: "GET", path: "/v1/vms/{id}"},
		{service: VMs, method: "DELETE", path: "/v1/vms/{id}", act: deleteVM},
		{service: Stock, method: "POST", path: "/v1/stock/adjustments", act: adjustStock, creates: true},
		{service: Stock, method: "GET", path: "/v1/stock/adjustments", list: []string{"key", "sku", "move_id"}},
		{service: Stock, method: "GET", path: "/v1/stock/adjustments/{id}"},
		{service: Stock, method: "POST", path: "/v1/stock/cancel", act: cancelStock, convergent: true},
		{service: Stock, method: "POST", path: "/v1/stock/moves", act: adjustStock, received: true},
		{service: Stock, method: "GET", path: "/v1/stock/moves/{id}", record: true},
		{service: Stock, method: "GET", path: "/v1/stock/items/{id}", objects: stockItems},
		{service: Orders, method: "GET", path: "/v1/orders", list: []string{"customer"}},
		{service: Orders, method: "GET", path: "/v1/orders/{id}"},
		{service: Orders, method: "PUT", path: "/v1/orders/{id}/address", act: setAddress, convergent: true},
	}...)
}
