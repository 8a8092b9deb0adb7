package sandbox

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// order is what charges and refunds are about.
type order struct {
	ID          string    `json:"id"`
	Customer    string    `json:"customer"`
	Email       string    `json:"email,omitempty"`
	Amount      string    `json:"amount"`
	AmountMinor int64     `json:"amount_minor"`
	Currency    string    `json:"currency"`
	Address     *address  `json:"address"`
	Status      string    `json:"status"`
	CreatedAt   time.Time `json:"created_at"`
}

type address struct {
	Line1    string `json:"line1"`
	Line2    string `json:"line2,omitempty"`
	City     string `json:"city"`
	Postcode string `json:"postcode"`
	Country  string `json:"country"`
}

// setAddress converges: the address it is called with stands afterwards, and only a
// change is an effect.
func setAddress(w *work) (*result, error) {
	f := w.form
	a := address{Line1: f.needText("line1"), Line2: f.text("line2"), City: f.needText("city"), Postcode: f.needText("postcode"), Country: f.needText("country")}
	if err := f.done(); err != nil {
		return nil, err
	}
	var o order
	st, err := w.load(Orders, w.id, &o)
	if err != nil {
		return nil, err
	}
	if o.Address != nil && *o.Address == a {
		return &result{status: 200, service: Orders, id: w.id}, nil
	}
	o.Address = &a
	return w.change(st, Orders, w.id, "order.address", w.id, 0, "", o)
}

// SeedOrder is an order to begin with. It is paid: a charge over the amount exists.
// Seeding is no effect.
type SeedOrder struct {
	ID       string
	Customer string
	Email    string
	// Amount is minor units of Currency.
	Amount   int64
	Currency string
}

// demoOrders is what a new ledger begins with.
func demoOrders() []SeedOrder {
	return []SeedOrder{
		{ID: "A-1182", Customer: "Ana Lima", Email: "ana@example.com", Amount: 4990, Currency: "EUR"},
		{ID: "A-1183", Customer: "Ben Okoro", Email: "ben@example.com", Amount: 12900, Currency: "EUR"},
		{ID: "A-1184", Customer: "Chiyo Mori", Email: "chiyo@example.com", Amount: 5200, Currency: "JPY"},
		{ID: "A-1185", Customer: "Dalal Saleh", Email: "dalal@example.com", Amount: 1500, Currency: "KWD"},
	}
}

// maxSeed bounds one call of Seed.
const maxSeed = 100_000

// Seed makes paid orders. An id that exists already is an error, and then none is made.
func (s *Sandbox) Seed(orders []SeedOrder) error {
	if len(orders) > maxSeed {
		return invalid("orders", "%d are more than %d", len(orders), maxSeed)
	}
	return s.ledger.write(s.ledger.durable, func(tx *sql.Tx) error { return s.seed(tx, orders) })
}

func (s *Sandbox) seed(tx *sql.Tx, orders []SeedOrder) error {
	now := s.Now()
	for i, so := range orders {
		if so.ID == "" || len(so.ID) > 64 || so.Amount <= 0 || so.Amount > 1e15 || minorDigits(so.Currency) < 0 || so.Currency != strings.ToUpper(strings.TrimSpace(so.Currency)) {
			return invalid("orders", "number %d: want an id, an amount above 0 and a currency", i)
		}
		var old order
		switch _, err := loadObject(tx, Orders, so.ID, &old); {
		case err == nil:
			return rejected(409, "order_exists", "order %q exists already", clip(so.ID))
		case !errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("seed: %w", err)
		}
		o := order{
			ID: so.ID, Customer: so.Customer, Email: so.Email, Amount: amountText(so.Amount, so.Currency), AmountMinor: so.Amount,
			Currency: so.Currency, Status: "paid", CreatedAt: now,
			Address: &address{Line1: "1 Harbour Street", City: "Lisbon", Postcode: "1100-001", Country: "PT"},
		}
		if err := insertObject(tx, &object{service: Orders, id: so.ID, at: now, hidden: now, landed: now, doc: o, terms: []term{{"customer", so.Customer}}}); err != nil {
			return fmt.Errorf("seed: %w", err)
		}
		id, err := nextID(tx, "ch")
		if err != nil {
			return fmt.Errorf("seed: %w", err)
		}
		c := charge{
			ID: id, OrderID: so.ID, Amount: o.Amount, AmountMinor: so.Amount, Currency: so.Currency,
			Refunded: amountText(0, so.Currency), Status: "succeeded", CreatedAt: now,
		}
		if err := insertObject(tx, &object{service: Charges, id: id, at: now, hidden: now, landed: now, doc: c, terms: []term{{"order_id", so.ID}}}); err != nil {
			return fmt.Errorf("seed: %w", err)
		}
	}
	return nil
}
