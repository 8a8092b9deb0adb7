package sandbox

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// charge is money taken for an order.
type charge struct {
	ID          string            `json:"id"`
	OrderID     string            `json:"order_id"`
	Amount      string            `json:"amount"`
	AmountMinor int64             `json:"amount_minor"`
	Currency    string            `json:"currency"`
	Refunded    string            `json:"refunded"`
	Status      string            `json:"status"`
	Card        string            `json:"card,omitempty"`
	Description string            `json:"description,omitempty"`
	Key         string            `json:"key,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	CreatedAt   time.Time         `json:"created_at"`

	RefundedMinor int64 `json:"refunded_minor"`
}

// createCharge takes money. A card whose name starts with "declined" is declined.
func createCharge(w *work) (*result, error) {
	f := w.form
	c := charge{OrderID: f.needText("order_id"), Card: f.text("card"), Description: f.text("description"), Metadata: f.labels("metadata")}
	c.AmountMinor, c.Currency = f.money()
	if err := f.done(); err != nil {
		return nil, err
	}
	if strings.HasPrefix(c.Card, "declined") {
		return nil, rejected(402, "card_declined", "the card was declined; nothing was charged")
	}
	id, err := nextID(w.tx, "ch")
	if err != nil {
		return nil, err
	}
	c.ID, c.Key, c.CreatedAt, c.Status = id, w.key, w.now, "succeeded"
	c.Amount, c.Refunded = amountText(c.AmountMinor, c.Currency), amountText(0, c.Currency)
	return w.create(Charges, id, "charge.create", c.OrderID, c.AmountMinor, c.Currency, c,
		labelled(c.Metadata, term{"order_id", c.OrderID}))
}

// refund is money given back.
type refund struct {
	ID          string            `json:"id"`
	ChargeID    string            `json:"charge_id"`
	OrderID     string            `json:"order_id"`
	Amount      string            `json:"amount"`
	AmountMinor int64             `json:"amount_minor"`
	Currency    string            `json:"currency"`
	Status      string            `json:"status"`
	Reason      string            `json:"reason,omitempty"`
	Key         string            `json:"key,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	CreatedAt   time.Time         `json:"created_at"`
}

// createRefund gives money back from one charge: the one named, or the oldest of the
// order that has enough left.
func createRefund(w *work) (*result, error) {
	f := w.form
	r := refund{ChargeID: f.text("charge_id"), OrderID: f.text("order_id"), Reason: f.text("reason"), Metadata: f.labels("metadata")}
	r.AmountMinor, r.Currency = f.money()
	if (r.ChargeID == "") == (r.OrderID == "") {
		f.fail("charge_id", "want either charge_id or order_id")
	}
	if err := f.done(); err != nil {
		return nil, err
	}
	c, st, err := w.refundable(r)
	if err != nil {
		return nil, err
	}
	id, err := nextID(w.tx, "re")
	if err != nil {
		return nil, err
	}
	c.RefundedMinor += r.AmountMinor
	c.Refunded = amountText(c.RefundedMinor, c.Currency)
	if c.RefundedMinor == c.AmountMinor {
		c.Status = "refunded"
	}
	if err := changeObject(w.tx, st.seq, w.lands(), c); err != nil {
		return nil, err
	}
	r.ID, r.ChargeID, r.OrderID, r.Key, r.CreatedAt, r.Status = id, c.ID, c.OrderID, w.key, w.now, "succeeded"
	r.Amount = amountText(r.AmountMinor, r.Currency)
	res, err := w.create(Refunds, id, "refund.create", r.OrderID, r.AmountMinor, r.Currency, r,
		labelled(r.Metadata, term{"order_id", r.OrderID}, term{"charge_id", r.ChargeID}))
	if err == nil && c.RefundedMinor == c.AmountMinor {
		err = w.reverse(Charges, c.ID, "charge.create", res.effect)
	}
	return res, err
}

// refundable finds the charge that a refund is taken from.
func (w *work) refundable(r refund) (charge, standing, error) {
	ids := []string{r.ChargeID}
	if r.OrderID != "" {
		rows, err := w.tx.Query(`SELECT o.id FROM terms t JOIN objects o ON o.seq = t.object
			WHERE t.service = ? AND t.name = 'order_id' AND t.value = ? ORDER BY o.seq`, Charges, r.OrderID)
		if ids, err = collect(rows, err, func(id *string, scan func(...any) error) error { return scan(id) }); err != nil {
			return charge{}, standing{}, err
		}
		if len(ids) == 0 {
			return charge{}, standing{}, rejected(404, "not_found", "order %q has no charge", clip(r.OrderID))
		}
	}
	var refusal error
	for _, id := range ids {
		var c charge
		st, err := w.load(Charges, id, &c)
		switch {
		case err != nil:
			refusal = err
		case c.Currency != r.Currency:
			refusal = rejected(422, "currency_mismatch", "charge %s is in %s", c.ID, c.Currency)
		case c.AmountMinor-c.RefundedMinor < r.AmountMinor:
			refusal = rejected(422, "amount_exceeds_charge", "charge %s has %s %s left to refund", c.ID,
				amountText(c.AmountMinor-c.RefundedMinor, c.Currency), c.Currency)
		default:
			return c, st, nil
		}
	}
	return charge{}, standing{}, refusal
}

// labelled adds the metadata to what an object can be listed by.
func labelled(metadata map[string]string, terms ...term) []term {
	for _, k := range slices.Sorted(maps.Keys(metadata)) {
		terms = append(terms, term{"metadata." + k, metadata[k]})
	}
	return terms
}
