package sandbox

import "time"

// ticket is an entry of an issue tracker whose search index lags.
type ticket struct {
	ID        string            `json:"id"`
	Project   string            `json:"project"`
	Title     string            `json:"title"`
	Body      string            `json:"body,omitempty"`
	ExtRef    string            `json:"ext_ref,omitempty"`
	Marker    string            `json:"marker,omitempty"`
	Status    string            `json:"status"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	CreatedAt time.Time         `json:"created_at"`
}

func createTicket(w *work) (*result, error) {
	f := w.form
	t := ticket{Project: f.needText("project"), Title: f.needText("title"), Body: f.textUpTo("body", maxBody), ExtRef: f.text("ext_ref"), Marker: f.text("marker"), Metadata: f.labels("metadata")}
	if err := f.done(); err != nil {
		return nil, err
	}
	id, err := nextID(w.tx, "tk")
	if err != nil {
		return nil, err
	}
	t.ID, t.CreatedAt, t.Status = id, w.now, "open"
	return w.create(Tickets, id, "ticket.create", t.subject(), 0, "", t,
		labelled(t.Metadata, term{"ext_ref", t.ExtRef}, term{"project", t.Project}, term{"marker", t.Marker}))
}

func (t *ticket) subject() string {
	if t.ExtRef != "" {
		return t.ExtRef
	}
	return t.Project
}

// closeTicket closes an open ticket; a closed one stays as it is, without an effect.
func closeTicket(w *work) (*result, error) {
	if err := w.form.done(); err != nil {
		return nil, err
	}
	var t ticket
	id := w.id
	st, err := w.load(Tickets, id, &t)
	if err != nil {
		return nil, err
	}
	if t.Status == "closed" {
		return &result{status: 200, service: Tickets, id: id}, nil
	}
	t.Status = "closed"
	res, err := w.change(st, Tickets, id, "ticket.close", t.subject(), 0, "", t)
	if err == nil {
		err = w.reverse(Tickets, id, "ticket.create", res.effect)
	}
	return res, err
}

// email is a message that is gone once it is sent: it cannot be read, found or recalled.
type email struct {
	ID        string    `json:"id"`
	To        string    `json:"to"`
	Template  string    `json:"template,omitempty"`
	Ref       string    `json:"ref,omitempty"`
	Status    string    `json:"status"`
	CreatedAt time.Time `json:"created_at"`
}

func sendEmail(w *work) (*result, error) {
	f := w.form
	e := email{To: f.needText("to"), Template: f.text("template"), Ref: f.text("ref")}
	f.text("subject")
	f.textUpTo("body", maxBody)
	if err := f.done(); err != nil {
		return nil, err
	}
	id, err := nextID(w.tx, "em")
	if err != nil {
		return nil, err
	}
	e.ID, e.CreatedAt, e.Status = id, w.now, "sent"
	return w.create(Emails, id, "email.send", e.To, 0, "", e, nil)
}
