package retail

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small is a domain that nobody published: one user with two orders, and one product.
func small() *Data {
	card := Cents(5000)
	variant := func(id string, available bool, p Cents) Variant {
		return Variant{ItemID: id, Available: available, Price: p, Options: map[string]string{"size": id}}
	}
	item := func(id string, p Cents) Item {
		return Item{Name: "Lamp", ProductID: "P1", ItemID: id, Price: p, Options: map[string]string{"size": id}}
	}
	return &Data{
		Products: map[string]*Product{"P1": {Name: "Lamp", ProductID: "P1", Variants: map[string]Variant{
			"10": variant("10", true, 1000), "20": variant("20", true, 2000), "99": variant("99", true, 9900), "0": variant("0", false, 100),
		}}},
		Users: map[string]*User{"ana_1": {
			Email: "ana@example.com", Address: Address{Address1: "1 Old Street", City: "Austin", State: "TX", Country: "USA", Zip: "78701"},
			Payments: map[string]PaymentMethod{
				"gift_card_1": {ID: "gift_card_1", Source: giftCard, Balance: &card},
				"paypal_1":    {ID: "paypal_1", Source: "paypal"},
				"paypal_2":    {ID: "paypal_2", Source: "paypal"},
			},
			Orders: []string{"#W0000001", "#W0000002"},
		}},
		Orders: map[string]*Order{
			"#W0000001": {ID: "#W0000001", UserID: "ana_1", Status: Pending, Items: []Item{item("10", 1000), item("20", 2000), item("10", 1000)},
				Payments: []Payment{{"payment", 4000, "paypal_1"}}},
			"#W0000002": {ID: "#W0000002", UserID: "ana_1", Status: Delivered, Items: []Item{item("10", 1000), item("10", 1000)},
				Payments: []Payment{{"payment", 2000, "gift_card_1"}}},
		},
	}
}

const (
	pendingOrder   = "#W0000001"
	deliveredOrder = "#W0000002"
)
