package sandbox

import (
	"strings"
	"time"
)

// booking is a hotel room or a seat on a flight.
type booking struct {
	ID          string            `json:"id"`
	Type        string            `json:"type"`
	Item        string            `json:"item"`
	Traveller   string            `json:"traveller"`
	From        string            `json:"from"`
	To          string            `json:"to,omitempty"`
	Ref         string            `json:"ref,omitempty"`
	Amount      string            `json:"amount"`
	AmountMinor int64             `json:"amount_minor"`
	Currency    string            `json:"currency"`
	Status      string            `json:"status"`
	Key         string            `json:"key,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	CreatedAt   time.Time         `json:"created_at"`
}

// Beginnings of an item's name that decide what can be done with it.
const (
	soldOut = "FULL-"
	final   = "FINAL-"
)

// createBooking books unless the day has passed or the item is sold out.
func createBooking(w *work) (*result, error) {
	f := w.form
	b := booking{Type: f.needText("type"), Item: f.needText("item"), Traveller: f.needText("traveller"), Ref: f.text("ref"), Metadata: f.labels("metadata")}
	from := f.date("from")
	b.From = from.Format(time.DateOnly)
	switch b.Type {
	case "hotel":
		to := f.date("to")
		b.To = to.Format(time.DateOnly)
		if !to.After(from) {
			f.fail("to", "want a day after from")
		}
	case "flight":
	default:
		f.fail("type", "want hotel or flight")
	}
	b.AmountMinor, b.Currency = f.money()
	if err := f.done(); err != nil {
		return nil, err
	}
	if strings.HasPrefix(b.Item, soldOut) {
		return nil, rejected(422, "sold_out", "%s is sold out", clip(b.Item))
	}
	if from.Before(w.now.Truncate(24 * time.Hour)) {
		return nil, rejected(422, "date_passed", "%s has passed", b.From)
	}
	id, err := nextID(w.tx, "bk")
	if err != nil {
		return nil, err
	}
	b.ID, b.Key, b.CreatedAt, b.Status, b.Amount = id, w.key, w.now, "confirmed", amountText(b.AmountMinor, b.Currency)
	return w.create(Bookings, id, "booking."+b.Type, b.subject(), b.AmountMinor, b.Currency, b,
		labelled(b.Metadata, term{"ref", b.Ref}, term{"item", b.Item}, term{"traveller", b.Traveller}))
}

func (b *booking) subject() string {
	if b.Ref != "" {
		return b.Ref
	}
	return b.Item
}

// cancelBooking cancels once: a second time, or an item that cannot be cancelled, is
// refused.
func cancelBooking(w *work) (*result, error) {
	w.form.text("reason")
	if err := w.form.done(); err != nil {
		return nil, err
	}
	var b booking
	id := w.id
	st, err := w.load(Bookings, id, &b)
	if err != nil {
		return nil, err
	}
	if b.Status == "cancelled" {
		return nil, &problem{Status: 409, Code: "already_cancelled", Message: "the booking is cancelled already", ResourceID: id}
	}
	if strings.HasPrefix(b.Item, final) {
		return nil, rejected(422, "not_cancellable", "%s cannot be cancelled", clip(b.Item))
	}
	b.Status = "cancelled"
	res, err := w.change(st, Bookings, id, "booking.cancel", b.subject(), b.AmountMinor, b.Currency, b)
	if err == nil {
		err = w.reverse(Bookings, id, "booking."+b.Type, res.effect)
	}
	return res, err
}
