package retail

import (
	"fmt"
	"slices"
	"strings"
)

// The tools that write.
const (
	Cancel       = "cancel_pending_order"
	OrderAddress = "modify_pending_order_address"
	OrderItems   = "modify_pending_order_items"
	OrderPayment = "modify_pending_order_payment"
	UserAddress  = "modify_user_address"
	Return       = "return_delivered_order_items"
	Exchange     = "exchange_delivered_order_items"
)

// Tools are the names of the tools that write.
var Tools = []string{Cancel, OrderAddress, OrderItems, OrderPayment, UserAddress, Return, Exchange}

// Converges reports whether a tool gives the same state however often the same call arrives.
func Converges(tool string) bool { return tool == OrderAddress || tool == UserAddress }

// Args are the arguments of any writing tool; each uses its own.
type Args struct {
	OrderID         string   `json:"order_id,omitempty"`
	UserID          string   `json:"user_id,omitempty"`
	Reason          string   `json:"reason,omitempty"`
	ItemIDs         []string `json:"item_ids,omitempty"`
	NewItemIDs      []string `json:"new_item_ids,omitempty"`
	PaymentMethodID string   `json:"payment_method_id,omitempty"`
	Address
}

// subject is what a call changes.
func (a *Args) subject() string {
	if a.OrderID != "" {
		return a.OrderID
	}
	return a.UserID
}

// Refusal is the shop's definite no. Nothing was changed.
type Refusal struct {
	// Status is the HTTP status: 404 for what is not there, 409 for a state that forbids it,
	// 422 for arguments that cannot be.
	Status int
	// Code names the reason; programs branch on it.
	Code    string
	Message string
}

func (r *Refusal) Error() string { return r.Code + ": " + r.Message }

func refuse(status int, code, format string, args ...any) error {
	return &Refusal{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// tools are what the shop can do. Each looks first and changes only what it may: an error
// leaves the edit unused.
var tools = map[string]func(*edit, *Args) error{
	Cancel: cancel, OrderAddress: orderAddress, OrderItems: orderItems, OrderPayment: orderPayment,
	UserAddress: userAddress, Return: returnItems, Exchange: exchangeItems,
}

func cancel(e *edit, a *Args) error {
	o, err := e.order(a.OrderID, Pending)
	if err != nil {
		return err
	}
	if a.Reason != "no longer needed" && a.Reason != "ordered by mistake" {
		return refuse(422, "invalid_reason", "the reason is none of those that are accepted")
	}
	for _, p := range slices.Clone(o.Payments) {
		o.Payments = append(o.Payments, Payment{"refund", p.Amount, p.MethodID})
		if m, known := e.user(o).Payments[p.MethodID]; known {
			e.pay(o, m, -p.Amount)
		}
	}
	o.Status, o.CancelReason = Cancelled, a.Reason
	return nil
}

func orderAddress(e *edit, a *Args) error {
	o, err := e.order(a.OrderID, Pending)
	if err != nil {
		return err
	}
	o.Address = a.Address
	return nil
}

func userAddress(e *edit, a *Args) error {
	u := e.userByID(a.UserID)
	if u == nil {
		return refuse(404, "user_not_found", "there is no such user")
	}
	u.Address = a.Address
	return nil
}

func orderItems(e *edit, a *Args) error {
	o, err := e.order(a.OrderID, Pending)
	if err != nil {
		return err
	}
	swaps, difference, err := e.swaps(o, a)
	if err != nil {
		return err
	}
	m, err := e.method(o, a.PaymentMethodID, difference)
	if err != nil {
		return err
	}
	kind, amount := "payment", difference
	if difference <= 0 {
		kind, amount = "refund", -difference
	}
	o.Payments = append(o.Payments, Payment{kind, amount, m.ID})
	e.pay(o, m, difference)
	for _, s := range swaps {
		item := &o.Items[s.at]
		item.ItemID, item.Price, item.Options = s.to.ItemID, s.to.Price, s.to.Options
	}
	o.Status = ItemModified
	return nil
}

func orderPayment(e *edit, a *Args) error {
	o, err := e.order(a.OrderID, Pending)
	if err != nil {
		return err
	}
	if len(o.Payments) != 1 || o.Payments[0].Type != "payment" {
		return refuse(409, "not_one_payment", "only an order with exactly one payment can be paid otherwise")
	}
	paid := o.Payments[0]
	if a.PaymentMethodID == paid.MethodID {
		return refuse(409, "same_payment_method", "the order is paid so already")
	}
	m, err := e.method(o, a.PaymentMethodID, paid.Amount)
	if err != nil {
		return err
	}
	o.Payments = append(o.Payments, Payment{"payment", paid.Amount, m.ID}, Payment{"refund", paid.Amount, paid.MethodID})
	e.pay(o, m, paid.Amount)
	if old, known := e.user(o).Payments[paid.MethodID]; known {
		e.pay(o, old, -paid.Amount)
	}
	return nil
}

func returnItems(e *edit, a *Args) error {
	o, err := e.order(a.OrderID, Delivered)
	if err != nil {
		return err
	}
	m, known := e.user(o).Payments[a.PaymentMethodID]
	switch {
	case !known:
		return errMethod
	case m.Source != giftCard && m.ID != o.Payments[0].MethodID:
		return refuse(422, "wrong_payment_method", "the refund goes to the original payment method or to a gift card")
	}
	if _, err := positions(o, a.ItemIDs); err != nil {
		return err
	}
	o.Status, o.ReturnItems, o.ReturnMethodID = ReturnRequested, slices.Sorted(slices.Values(a.ItemIDs)), m.ID
	return nil
}

func exchangeItems(e *edit, a *Args) error {
	o, err := e.order(a.OrderID, Delivered)
	if err != nil {
		return err
	}
	_, difference, err := e.swaps(o, a)
	if err != nil {
		return err
	}
	m, err := e.method(o, a.PaymentMethodID, difference)
	if err != nil {
		return err
	}
	o.Status, o.ExchangeMethodID, o.ExchangeDifference = Exchanged, m.ID, &difference
	o.ExchangeItems, o.ExchangeNewItems = slices.Sorted(slices.Values(a.ItemIDs)), slices.Sorted(slices.Values(a.NewItemIDs))
	return nil
}

// swap puts a variant in the place of an order's item.
type swap struct {
	at int
	to Variant
}

// swaps pairs old and new items by position, whatever order the pairs come in, and gives
// the difference in price.
func (e *edit) swaps(o *Order, a *Args) ([]swap, Cents, error) {
	if len(a.ItemIDs) != len(a.NewItemIDs) {
		return nil, 0, refuse(422, "items_unpaired", "each item needs exactly one new item")
	}
	pairs := make([][2]string, len(a.ItemIDs))
	for i := range pairs {
		pairs[i] = [2]string{a.ItemIDs[i], a.NewItemIDs[i]}
	}
	slices.SortFunc(pairs, func(p, q [2]string) int { return slices.Compare(p[:], q[:]) })
	old := make([]string, len(pairs))
	for i, p := range pairs {
		old[i] = p[0]
	}
	at, err := positions(o, old)
	if err != nil {
		return nil, 0, err
	}
	var difference Cents
	swaps := make([]swap, len(pairs))
	for i, p := range pairs {
		item := o.Items[at[i]]
		to, known := e.shop.data.Products[item.ProductID].Variants[p[1]]
		if !known || !to.Available {
			return nil, 0, refuse(422, "new_item_not_available", "a new item is no available variant of the same product")
		}
		swaps[i] = swap{at[i], to}
		difference += to.Price - item.Price
	}
	return swaps, difference, nil
}

// positions finds a piece of the order for each item, every piece once.
func positions(o *Order, items []string) ([]int, error) {
	if len(items) == 0 {
		return nil, refuse(422, "no_items", "no item is named")
	}
	taken := make([]bool, len(o.Items))
	at := make([]int, len(items))
next:
	for i, id := range items {
		for k := range o.Items {
			if !taken[k] && o.Items[k].ItemID == id {
				taken[k], at[i] = true, k
				continue next
			}
		}
		return nil, refuse(422, "item_not_found", "the order has not so many of an item")
	}
	return at, nil
}

const giftCard = "gift_card"

var errMethod = refuse(422, "payment_method_not_found", "the user has no such payment method")

// method finds a payment method that can pay an amount.
func (e *edit) method(o *Order, id string, amount Cents) (PaymentMethod, error) {
	m, known := e.user(o).Payments[id]
	switch {
	case !known:
		return m, errMethod
	case m.Source == giftCard && *m.Balance < amount:
		return m, refuse(422, "insufficient_balance", "the gift card has too little left")
	}
	return m, nil
}

// pay takes an amount from a gift card; other methods are charged elsewhere.
func (e *edit) pay(o *Order, m PaymentMethod, amount Cents) {
	if m.Source != giftCard {
		return
	}
	left := *m.Balance - amount
	m.Balance = &left
	e.user(o).Payments[m.ID] = m
}

// order is an order in a status, to be changed.
func (e *edit) order(id, status string) (*Order, error) {
	o := e.orderByID(id)
	switch {
	case o == nil:
		return nil, refuse(404, "order_not_found", "there is no such order")
	case o.Status != status:
		return nil, refuse(409, "not_"+strings.ReplaceAll(status, " ", "_"), "the order is not %s", status)
	}
	return o, nil
}
