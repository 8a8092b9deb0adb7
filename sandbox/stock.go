package sandbox

import (
	"database/sql"
	"encoding/json"
	"errors"
	"time"
)

// stockItems is the service name under which items are kept as objects.
const stockItems = "stock_items"

// stockItem is how many pieces of something there are.
type stockItem struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
	Status   string `json:"status"`
}

// adjustment is one change of a stock item.
type adjustment struct {
	ID     string `json:"id"`
	SKU    string `json:"sku"`
	Delta  int64  `json:"delta"`
	MoveID string `json:"move_id,omitempty"`
	// Quantity is what the item had afterwards.
	Quantity  int64     `json:"quantity"`
	Status    string    `json:"status"`
	Key       string    `json:"key,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

// adjustStock changes a quantity, not below 0, unless it comes later than not-after.
func adjustStock(w *work) (*result, error) {
	f := w.form
	a := adjustment{SKU: f.needText("sku"), Delta: f.integer("delta"), MoveID: f.text("move_id")}
	notAfter := w.notAfter
	if text := f.text("not_after"); text != "" {
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			f.fail("not_after", "want an instant such as 2026-11-30T12:00:00Z")
		}
		if notAfter.IsZero() || t.Before(notAfter) {
			notAfter = t
		}
	}
	if a.Delta == 0 {
		f.fail("delta", "want another number than 0")
	}
	if err := f.done(); err != nil {
		return nil, err
	}
	if !notAfter.IsZero() && w.now.After(notAfter) {
		return nil, rejected(412, "not_after_passed", "it is later than not-after; nothing was done")
	}
	item := stockItem{SKU: a.SKU, Status: "counted"}
	st, err := loadObject(w.tx, stockItems, a.SKU, &item)
	if errors.Is(err, sql.ErrNoRows) {
		if err = insertObject(w.tx, &object{service: stockItems, id: a.SKU, at: w.now, hidden: w.now, landed: w.now, doc: item}); err == nil {
			st, err = loadObject(w.tx, stockItems, a.SKU, &item)
		}
	}
	if err != nil {
		return nil, err
	}
	item.Quantity += a.Delta
	if item.Quantity < 0 {
		return nil, rejected(422, "insufficient_stock", "%s has %d pieces", clip(a.SKU), item.Quantity-a.Delta)
	}
	if err := changeObject(w.tx, st.seq, w.lands(), item); err != nil {
		return nil, err
	}
	id, err := nextID(w.tx, "st")
	if err != nil {
		return nil, err
	}
	a.ID, a.Quantity, a.Key, a.CreatedAt, a.Status = id, item.Quantity, w.key, w.now, "done"
	return w.create(Stock, id, "stock.adjust", a.SKU, a.Delta, "", a, []term{{"sku", a.SKU}, {"move_id", a.MoveID}})
}

// cancelled is the answer of the fence.
type cancelled struct {
	Key string `json:"key"`
	// Status is done, and then the adjustment stands, or cancelled.
	Status     string          `json:"status"`
	Adjustment json.RawMessage `json:"adjustment,omitempty"`
	// RefusedUntil is absent where a later arrival would be carried out.
	RefusedUntil *time.Time `json:"refused_until,omitempty"`
}

// cancelStock is a fence: it tells the adjustment made under a key, or sees to it that
// none is made from now on. It undoes nothing.
func cancelStock(w *work) (*result, error) {
	key := w.form.needText("key")
	if err := w.form.done(); err != nil {
		return nil, err
	}
	var busyUntil int64
	err := w.tx.QueryRow(`SELECT busy_until FROM keys WHERE service = ? AND key = ?`, Stock, key).Scan(&busyUntil)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	if busyUntil > micros(w.now) {
		return nil, inFlight(w.now, instant(busyUntil))
	}
	answer := cancelled{Key: key, Status: "cancelled"}
	var id string
	err = w.tx.QueryRow(`SELECT o.id FROM terms t JOIN objects o ON o.seq = t.object
		WHERE t.service = ? AND t.name = 'key' AND t.value = ? ORDER BY o.seq LIMIT 1`, Stock, key).Scan(&id)
	switch {
	case err == nil:
		answer.Status = "done"
		if answer.Adjustment, err = readObject(w.tx, w.now, Stock, id); err != nil {
			return nil, err
		}
	case !errors.Is(err, sql.ErrNoRows):
		return nil, err
	case w.mode.Tombstone > 0:
		until := w.now.Add(w.mode.Tombstone)
		answer.RefusedUntil = &until
		if _, err := w.tx.Exec(`INSERT INTO tombstones (service, key, until) VALUES (?, ?, ?)
			ON CONFLICT (service, key) DO UPDATE SET until = max(until, excluded.until)`, Stock, key, micros(until)); err != nil {
			return nil, err
		}
	}
	raw, err := json.Marshal(answer)
	return &result{status: 200, raw: raw}, err
}
