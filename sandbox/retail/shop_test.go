package retail

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
)

// do carries a call out and returns the code of the refusal, if it is one.
func do(t *testing.T, s *Shop, w Write) string {
	t.Helper()
	_, err := s.Do(w)
	var no *Refusal
	switch {
	case errors.As(err, &no):
		return no.Code
	case err != nil:
		t.Fatalf("%s: %v", w.Tool, err)
	}
	return ""
}

func orderOf(t *testing.T, s *Shop, id string) *Order {
	t.Helper()
	var o Order
	if err := json.Unmarshal(s.Order(id), &o); err != nil {
		t.Fatal(err)
	}
	return &o
}

func balance(t *testing.T, s *Shop) Cents {
	t.Helper()
	var u User
	if err := json.Unmarshal(s.User("ana_1"), &u); err != nil {
		t.Fatal(err)
	}
	return *u.Payments["gift_card_1"].Balance
}

func TestCancelPaysBack(t *testing.T) {
	t.Parallel()
	d := small()
	d.Orders[pendingOrder].Payments[0].MethodID = "gift_card_1"
	s := d.Open()
	w := Write{Cancel, Args{OrderID: pendingOrder, Reason: "no longer needed"}}
	if code := do(t, s, w); code != "" {
		t.Fatalf("got %s, want it cancelled", code)
	}
	o := orderOf(t, s, pendingOrder)
	if o.Status != Cancelled || o.CancelReason != w.Args.Reason || len(o.Payments) != 2 || o.Payments[1] != (Payment{"refund", 4000, "gift_card_1"}) {
		t.Errorf("got %+v, want it cancelled and refunded", o)
	}
	if got := balance(t, s); got != 9000 {
		t.Errorf("got a balance of %d, want 9000", got)
	}
	if code := do(t, s, w); code != "not_pending" {
		t.Errorf("a second time: got %q, want not_pending", code)
	}
}

func TestItemsArePairedWhateverTheirOrder(t *testing.T) {
	t.Parallel()
	for _, pairs := range [][2][]string{{{"10", "10", "20"}, {"20", "99", "10"}}, {{"20", "10", "10"}, {"10", "99", "20"}}} {
		s := small().Open()
		if code := do(t, s, Write{OrderItems, Args{OrderID: pendingOrder, ItemIDs: pairs[0], NewItemIDs: pairs[1], PaymentMethodID: "paypal_2"}}); code != "" {
			t.Fatalf("%v: got %s, want them changed", pairs, code)
		}
		o := orderOf(t, s, pendingOrder)
		var got []string
		for _, item := range o.Items {
			got = append(got, item.ItemID)
		}
		if want := []string{"20", "10", "99"}; !slices.Equal(got, want) {
			t.Errorf("%v: got items %v, want %v", pairs, got, want)
		}
		// 20.00 + 99.00 + 10.00 for 10.00 + 10.00 + 20.00.
		if o.Status != ItemModified || o.Payments[1] != (Payment{"payment", 8900, "paypal_2"}) {
			t.Errorf("%v: got %s and %+v, want the difference of 89.00 paid", pairs, o.Status, o.Payments)
		}
	}
}

func TestPaymentMoves(t *testing.T) {
	t.Parallel()
	s := small().Open()
	if code := do(t, s, Write{OrderPayment, Args{OrderID: pendingOrder, PaymentMethodID: "gift_card_1"}}); code != "" {
		t.Fatalf("got %s, want it paid by gift card", code)
	}
	want := []Payment{{"payment", 4000, "paypal_1"}, {"payment", 4000, "gift_card_1"}, {"refund", 4000, "paypal_1"}}
	if o := orderOf(t, s, pendingOrder); !slices.Equal(o.Payments, want) {
		t.Errorf("got %+v, want %+v", o.Payments, want)
	}
	if got := balance(t, s); got != 1000 {
		t.Errorf("got a balance of %d, want 1000", got)
	}
	if code := do(t, s, Write{OrderPayment, Args{OrderID: pendingOrder, PaymentMethodID: "paypal_2"}}); code != "not_one_payment" {
		t.Errorf("a second time: got %q, want not_one_payment", code)
	}
}

func TestReturnAndExchange(t *testing.T) {
	t.Parallel()
	s := small().Open()
	if code := do(t, s, Write{Return, Args{OrderID: deliveredOrder, ItemIDs: []string{"10", "10"}, PaymentMethodID: "gift_card_1"}}); code != "" {
		t.Fatalf("return: got %s", code)
	}
	if o := orderOf(t, s, deliveredOrder); o.Status != ReturnRequested || !slices.Equal(o.ReturnItems, []string{"10", "10"}) {
		t.Errorf("return: got %+v", o)
	}
	s = small().Open()
	if code := do(t, s, Write{Exchange, Args{OrderID: deliveredOrder, ItemIDs: []string{"10"}, NewItemIDs: []string{"20"}, PaymentMethodID: "gift_card_1"}}); code != "" {
		t.Fatalf("exchange: got %s", code)
	}
	o := orderOf(t, s, deliveredOrder)
	if o.Status != Exchanged || !slices.Equal(o.ExchangeNewItems, []string{"20"}) || o.ExchangeDifference == nil || *o.ExchangeDifference != 1000 {
		t.Errorf("exchange: got %+v", o)
	}
	if got := balance(t, s); got != 5000 {
		t.Errorf("exchange: got a balance of %d, want it unchanged: nothing is paid before the items are back", got)
	}
}

// TestRefusalsChangeNothing has one call for each reason to refuse.
func TestRefusalsChangeNothing(t *testing.T) {
	t.Parallel()
	pairs := func(tool, order, method string, old, to []string) Write {
		return Write{tool, Args{OrderID: order, ItemIDs: old, NewItemIDs: to, PaymentMethodID: method}}
	}
	for _, c := range []struct {
		want string
		w    Write
	}{
		{"order_not_found", Write{Cancel, Args{OrderID: "#W9999999", Reason: "no longer needed"}}},
		{"not_pending", Write{Cancel, Args{OrderID: deliveredOrder, Reason: "no longer needed"}}},
		{"invalid_reason", Write{Cancel, Args{OrderID: pendingOrder, Reason: "I want to"}}},
		{"not_pending", Write{OrderAddress, Args{OrderID: deliveredOrder}}},
		{"user_not_found", Write{UserAddress, Args{UserID: "ben_1"}}},
		{"not_pending", pairs(OrderItems, deliveredOrder, "paypal_1", []string{"10"}, []string{"20"})},
		{"items_unpaired", pairs(OrderItems, pendingOrder, "paypal_1", []string{"10"}, nil)},
		{"no_items", pairs(OrderItems, pendingOrder, "paypal_1", nil, nil)},
		{"item_not_found", pairs(OrderItems, pendingOrder, "paypal_1", []string{"20", "20"}, []string{"10", "10"})},
		{"new_item_not_available", pairs(OrderItems, pendingOrder, "paypal_1", []string{"10"}, []string{"0"})},
		{"new_item_not_available", pairs(OrderItems, pendingOrder, "paypal_1", []string{"10"}, []string{"77"})},
		{"payment_method_not_found", pairs(OrderItems, pendingOrder, "paypal_9", []string{"10"}, []string{"20"})},
		{"insufficient_balance", pairs(OrderItems, pendingOrder, "gift_card_1", []string{"10"}, []string{"99"})},
		{"same_payment_method", Write{OrderPayment, Args{OrderID: pendingOrder, PaymentMethodID: "paypal_1"}}},
		{"payment_method_not_found", Write{OrderPayment, Args{OrderID: pendingOrder, PaymentMethodID: "paypal_9"}}},
		{"not_delivered", Write{Return, Args{OrderID: pendingOrder, ItemIDs: []string{"10"}, PaymentMethodID: "paypal_1"}}},
		{"wrong_payment_method", Write{Return, Args{OrderID: deliveredOrder, ItemIDs: []string{"10"}, PaymentMethodID: "paypal_1"}}},
		{"item_not_found", Write{Return, Args{OrderID: deliveredOrder, ItemIDs: []string{"20"}, PaymentMethodID: "gift_card_1"}}},
		{"not_delivered", pairs(Exchange, pendingOrder, "paypal_1", []string{"10"}, []string{"20"})},
		{"insufficient_balance", pairs(Exchange, deliveredOrder, "gift_card_1", []string{"10"}, []string{"99"})},
		{"no_such_tool", Write{Tool: "delete_order"}},
	} {
		s := small().Open()
		if got := do(t, s, c.w); got != c.want {
			t.Errorf("%s %+v: got %q, want %q", c.w.Tool, c.w.Args, got, c.want)
		}
		if !s.Refuses(c.w) {
			t.Errorf("%s %+v: Refuses says no", c.w.Tool, c.w.Args)
		}
		if n := s.Changes(); len(n) > 0 || len(s.effects) > 0 {
			t.Errorf("%s %+v: got %v changed and %v in the ledger, want nothing", c.w.Tool, c.w.Args, n, s.effects)
		}
	}
}

// TestShopsAreApart: what one copy does, neither another one nor the data sees.
func TestShopsAreApart(t *testing.T) {
	t.Parallel()
	d := small()
	one, other := d.Open(), d.Open()
	before := string(other.Order(pendingOrder)) + string(other.User("ana_1"))
	for _, w := range []Write{
		{OrderPayment, Args{OrderID: pendingOrder, PaymentMethodID: "gift_card_1"}},
		{OrderItems, Args{OrderID: pendingOrder, ItemIDs: []string{"10"}, NewItemIDs: []string{"20"}, PaymentMethodID: "paypal_1"}},
		{UserAddress, Args{UserID: "ana_1", Address: Address{City: "Elsewhere"}}},
	} {
		do(t, one, w)
	}
	if got := string(other.Order(pendingOrder)) + string(other.User("ana_1")); got != before || len(other.Changes()) > 0 {
		t.Errorf("got %s\nwant %s", got, before)
	}
	if got := one.Effects(); got[OrderPayment] != 1 || got[OrderItems] != 1 || got[UserAddress] != 1 {
		t.Errorf("got effects %v, want one of each", got)
	}
}
