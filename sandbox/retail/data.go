package retail

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Data is the domain as it was published: the database that every Shop begins with, and the
// tasks. It is never changed.
type Data struct {
	Orders   map[string]*Order
	Users    map[string]*User
	Products map[string]*Product
	Tasks    []Task
}

// Task is one conversation's true actions: the writes that a perfect agent makes.
type Task struct {
	// Name is the set and the number, such as train/17.
	Name   string
	UserID string
	Writes []Write
}

// Write is one call of a writing tool.
type Write struct {
	Tool string
	Args Args
}

// Address is where a user lives or an order goes.
type Address struct {
	Address1 string `json:"address1"`
	Address2 string `json:"address2"`
	City     string `json:"city"`
	State    string `json:"state"`
	Country  string `json:"country"`
	Zip      string `json:"zip"`
}

// Item is one piece of an order.
type Item struct {
	Name      string            `json:"name"`
	ProductID string            `json:"product_id"`
	ItemID    string            `json:"item_id"`
	Price     Cents             `json:"price"`
	Options   map[string]string `json:"options"`
}

// Payment is one line of an order's payment history.
type Payment struct {
	Type     string `json:"transaction_type"`
	Amount   Cents  `json:"amount"`
	MethodID string `json:"payment_method_id"`
}

// Order is what the shop knows about an order.
type Order struct {
	ID           string          `json:"order_id"`
	UserID       string          `json:"user_id"`
	Address      Address         `json:"address"`
	Items        []Item          `json:"items"`
	Fulfillments json.RawMessage `json:"fulfillments"`
	Status       string          `json:"status"`
	Payments     []Payment       `json:"payment_history"`

	CancelReason       string   `json:"cancel_reason,omitempty"`
	ReturnItems        []string `json:"return_items,omitempty"`
	ReturnMethodID     string   `json:"return_payment_method_id,omitempty"`
	ExchangeItems      []string `json:"exchange_items,omitempty"`
	ExchangeNewItems   []string `json:"exchange_new_items,omitempty"`
	ExchangeMethodID   string   `json:"exchange_payment_method_id,omitempty"`
	ExchangeDifference *Cents   `json:"exchange_price_difference,omitempty"`
}

// Statuses of an order.
const (
	Pending         = "pending"
	ItemModified    = "pending (item modified)"
	Delivered       = "delivered"
	Cancelled       = "cancelled"
	ReturnRequested = "return requested"
	Exchanged       = "exchange requested"
)

func (o *Order) clone() *Order {
	c := *o
	c.Items, c.Payments = slices.Clone(o.Items), slices.Clone(o.Payments)
	return &c
}

// PaymentMethod is one of a user's. Only gift cards have a balance.
type PaymentMethod struct {
	ID       string `json:"id"`
	Source   string `json:"source"`
	Brand    string `json:"brand,omitempty"`
	LastFour string `json:"last_four,omitempty"`
	Balance  *Cents `json:"balance,omitempty"`
}

// User is what the shop knows about a customer.
type User struct {
	Name     json.RawMessage          `json:"name"`
	Address  Address                  `json:"address"`
	Email    string                   `json:"email"`
	Payments map[string]PaymentMethod `json:"payment_methods"`
	Orders   []string                 `json:"orders"`
}

func (u *User) clone() *User {
	c := *u
	c.Payments = maps.Clone(u.Payments)
	return &c
}

// Product is a kind of thing with its variants.
type Product struct {
	Name      string             `json:"name"`
	ProductID string             `json:"product_id"`
	Variants  map[string]Variant `json:"variants"`
}

// Variant is what can be ordered, under an item id of its own.
type Variant struct {
	ItemID    string            `json:"item_id"`
	Options   map[string]string `json:"options"`
	Available bool              `json:"available"`
	Price     Cents             `json:"price"`
}

// NoDataError: there is no domain in a folder.
type NoDataError struct {
	Dir string
	// Tried are the files of which one has to be there.
	Tried []string
}

// Error names what was looked for.
func (e *NoDataError) Error() string {
	return fmt.Sprintf("no tau-bench retail data in %q: looked for %s", e.Dir, strings.Join(e.Tried, " and "))
}

// places are where a folder may have the domain.
var places = []string{".", "retail", "tau-bench-v1/retail"}

// Load reads the domain from a folder that has data/orders.json, data/users.json,
// data/products.json and tasks_*.json, or has a folder retail or tau-bench-v1/retail that
// does. The error is a *NoDataError where there is none.
func Load(dir string) (*Data, error) {
	missing := &NoDataError{Dir: dir}
	for _, place := range places {
		orders := filepath.Join(dir, filepath.FromSlash(place), "data", "orders.json")
		if _, err := os.Stat(orders); errors.Is(err, fs.ErrNotExist) {
			missing.Tried = append(missing.Tried, orders)
			continue
		} else if err != nil {
			return nil, fmt.Errorf("retail data: %w", err)
		}
		return load(filepath.Join(dir, filepath.FromSlash(place)))
	}
	return nil, missing
}

func load(dir string) (*Data, error) {
	d := &Data{}
	for _, part := range []struct {
		name string
		into any
	}{{"orders", &d.Orders}, {"users", &d.Users}, {"products", &d.Products}} {
		if err := readJSON(filepath.Join(dir, "data", part.name+".json"), part.into); err != nil {
			return nil, err
		}
	}
	pattern := filepath.Join(dir, "tasks_*.json")
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("retail data: %w", err)
	}
	if len(files) == 0 {
		return nil, &NoDataError{Dir: dir, Tried: []string{pattern}}
	}
	slices.Sort(files)
	for _, file := range files {
		if err := d.readTasks(file); err != nil {
			return nil, err
		}
	}
	return d, d.check()
}

// readTasks adds the tasks of one file.
func (d *Data) readTasks(file string) error {
	var tasks []struct {
		UserID  string `json:"user_id"`
		Actions []struct {
			Name   string          `json:"name"`
			Kwargs json.RawMessage `json:"kwargs"`
		} `json:"actions"`
	}
	if err := readJSON(file, &tasks); err != nil {
		return err
	}
	set := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "tasks_"), ".json")
	for i, t := range tasks {
		task := Task{Name: fmt.Sprintf("%s/%d", set, i), UserID: t.UserID}
		for _, a := range t.Actions {
			if !slices.Contains(Tools, a.Name) {
				continue // it reads, or hands over to a person
			}
			w := Write{Tool: a.Name}
			if err := json.Unmarshal(a.Kwargs, &w.Args); err != nil {
				return fmt.Errorf("%s: task %d: %s: %w", file, i, a.Name, err)
			}
			task.Writes = append(task.Writes, w)
		}
		d.Tasks = append(d.Tasks, task)
	}
	return nil
}

// maxData bounds one file.
const maxData = 64 << 20

func readJSON(file string, into any) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("retail data: %w", err)
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil && fi.Size() > maxData {
		return fmt.Errorf("%s: more than %d bytes", file, maxData)
	}
	if err := json.NewDecoder(f).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// check refuses a database whose parts do not fit each other: a shop relies on it.
func (d *Data) check() error {
	for id, o := range d.Orders {
		switch {
		case o == nil || o.ID != id:
			return fmt.Errorf("retail data: order %q is not what its key says", id)
		case d.Users[o.UserID] == nil:
			return fmt.Errorf("retail data: order %q: there is no user %q", id, o.UserID)
		case len(o.Payments) == 0:
			return fmt.Errorf("retail data: order %q has no payment", id)
		}
		for _, item := range o.Items {
			if d.Products[item.ProductID] == nil {
				return fmt.Errorf("retail data: order %q: there is no product %q", id, item.ProductID)
			}
		}
	}
	for _, t := range d.Tasks {
		if d.Users[t.UserID] == nil {
			return fmt.Errorf("retail data: task %s: there is no user %q", t.Name, t.UserID)
		}
	}
	return nil
}
