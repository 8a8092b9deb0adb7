package drill

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/sandbox/retail"
)

// script is what the host asks for in one task, and what has to come of it.
type script struct {
	steps []*step
	// want is the shop after each step was carried out once.
	want *retail.Shop
}

// step is one intended effect, or one call that the shop refuses.
type step struct {
	id    string
	write retail.Write
	args  map[string]any // as the host words them first
	// refused: the shop says no.
	refused bool
	// idle: it changes nothing, because it has been so before. Then both outcomes are true.
	idle bool
	// turn is how long its calls may take.
	turn time.Duration
	// together: the same call is made a second time while the first is under way.
	together bool
	// asks are made once the step is settled. Nothing may come of them.
	asks []ask
}

// ask is a call that has been made before.
type ask struct {
	of   *step
	args map[string]any
	// changed: an argument that is no identity differs, so that it is refused.
	changed bool
}

const (
	// longTurn is enough for a daemon that lives to settle most doubt inside the call.
	longTurn = 12 * time.Second
	// shortTurn leaves it to the sweeper. 2 s of it are kept to report in, and a second is
	// the least to start with.
	shortTurn = 3200 * time.Millisecond
)

// newScript is the task's own writes; with FaultsMix there is more between them.
func newScript(data *retail.Data, task *retail.Task, mode Faults, seed uint64) *script {
	s := &script{want: data.Open()}
	if mode != FaultsMix {
		for _, w := range task.Writes {
			s.add(w)
		}
		return s
	}
	m := &mixer{script: s, task: task, rng: seeded(seed, "script "+task.Name)}
	for _, w := range task.Writes {
		m.before(w)
		s.add(w)
		m.after(w)
	}
	m.user()
	for i, st := range s.steps {
		m.decorate(i, st)
	}
	return s
}

// add carries a write out at the shop that is compared with, and makes it a step.
func (s *script) add(w retail.Write) *step {
	st := &step{id: strconv.Itoa(len(s.steps) + 1), write: w, args: arguments(w), turn: longTurn}
	st.idle = retail.Converges(w.Tool) && s.want.Address(w.Args.OrderID+w.Args.UserID) == w.Args.Address
	_, err := s.want.Do(w)
	var no *retail.Refusal
	st.refused = errors.As(err, &no)
	s.steps = append(s.steps, st)
	return st
}

// arguments are a write's as a model gives them.
func arguments(w retail.Write) map[string]any {
	a := &w.Args
	out := map[string]any{}
	for name, value := range map[string]string{
		"order_id": a.OrderID, "user_id": a.UserID, "reason": a.Reason, "payment_method_id": a.PaymentMethodID,
	} {
		if value != "" {
			out[name] = value
		}
	}
	if len(a.ItemIDs) > 0 {
		out["item_ids"] = a.ItemIDs
	}
	if len(a.NewItemIDs) > 0 {
		out["new_item_ids"] = a.NewItemIDs
	}
	if retail.Converges(w.Tool) {
		for name, value := range map[string]string{
			"address1": a.Address1, "address2": a.Address2, "city": a.City, "state": a.State, "country": a.Country, "zip": a.Zip,
		} {
			out[name] = value
		}
	}
	return out
}

// mixer adds what the tasks lack: refusals, changes of addresses, repeats and other words.
type mixer struct {
	script *script
	task   *retail.Task
	rng    *rand.Rand
	moves  int
}

// one reports true once in n times.
func (m *mixer) one(n int) bool { return m.rng.IntN(n) == 0 }

// before puts steps in front of one of the task's own.
func (m *mixer) before(w retail.Write) {
	if m.one(4) {
		m.refusal(w)
	}
	if m.one(5) {
		m.user()
	}
	if m.one(3) && m.script.want.Status(w.Args.OrderID) == retail.Pending && w.Tool != retail.OrderAddress {
		m.moved(retail.Write{Tool: retail.OrderAddress, Args: retail.Args{OrderID: w.Args.OrderID}})
	}
}

// after wants the same once more, at a step of its own: the shop refuses what can be done
// once, because it has been done.
func (m *mixer) after(w retail.Write) {
	if m.one(5) {
		m.script.add(w)
	}
}

// user changes where the user lives.
func (m *mixer) user() {
	if m.one(3) {
		m.moved(retail.Write{Tool: retail.UserAddress, Args: retail.Args{UserID: m.task.UserID}})
	}
}

// moved changes an address, and often changes it back and once more: the same change again
// at a later step is another one.
func (m *mixer) moved(w retail.Write) {
	subject := w.Args.OrderID + w.Args.UserID
	old := m.script.want.Address(subject)
	w.Args.Address = m.address(old)
	m.script.add(w)
	if m.one(2) {
		return
	}
	back := w
	back.Args.Address = old
	m.script.add(back)
	if m.one(2) {
		m.script.add(w)
	}
}

// address is another address than the old one.
func (m *mixer) address(old retail.Address) retail.Address {
	m.moves++
	a := old
	a.Address1 = fmt.Sprintf("%d Ratchet Road", 100*m.moves+m.rng.IntN(100))
	if m.one(3) {
		a.Address2 = ""
	}
	if m.one(2) {
		a.City, a.State, a.Zip = "Fort Worth", "TX", "76176"
	}
	return a
}

// refusal adds a call that the shop refuses as it is now, if one of some tries is.
func (m *mixer) refusal(w retail.Write) {
	order := w.Args.OrderID
	tries := []retail.Write{
		{Tool: retail.Cancel, Args: retail.Args{OrderID: order, Reason: "changed my mind"}},
		{Tool: retail.Cancel, Args: retail.Args{OrderID: "#W0000000", Reason: "no longer needed"}},
		{Tool: retail.Return, Args: retail.Args{OrderID: order, ItemIDs: []string{"0000000000"}, PaymentMethodID: "paypal_0000000"}},
		{Tool: retail.OrderPayment, Args: retail.Args{OrderID: order, PaymentMethodID: "gift_card_0000000"}},
		{Tool: retail.Exchange, Args: retail.Args{
			OrderID: order, ItemIDs: []string{"0000000000"}, NewItemIDs: []string{"0000000001"}, PaymentMethodID: "credit_card_0000000",
		}},
	}
	if len(w.Args.NewItemIDs) > 0 {
		wrong := w
		wrong.Args.PaymentMethodID = "paypal_0000000"
		tries = append(tries, wrong)
	}
	try := tries[m.rng.IntN(len(tries))]
	if m.script.want.Refuses(try) {
		m.script.add(try)
	}
}

// decorate gives a step other words, a twin at the same time and calls afterwards.
func (m *mixer) decorate(i int, st *step) {
	if m.one(4) {
		st.args = m.reworded(st)
	}
	if m.one(4) {
		st.turn = shortTurn
	}
	st.together = m.one(5)
	if m.one(4) {
		st.asks = append(st.asks, ask{of: st, args: st.args})
	}
	if m.one(4) {
		st.asks = append(st.asks, ask{of: st, args: m.reworded(st)})
	}
	if earlier := m.script.steps[m.rng.IntN(i+1)]; m.one(4) {
		st.asks = append(st.asks, ask{of: earlier, args: m.reworded(earlier)})
	}
	if args := changed(st); args != nil && m.one(4) {
		st.asks = append(st.asks, ask{of: st, args: args, changed: true})
	}
}

// reworded says the same in other words.
func (m *mixer) reworded(st *step) map[string]any {
	out := arguments(st.write)
	if id, ok := out["order_id"].(string); ok && m.one(2) {
		out["order_id"] = id[1:]
	}
	if id, ok := out["user_id"].(string); ok {
		out["user_id"] = " " + id + "\n"
	}
	if st.write.Tool == retail.OrderPayment {
		out["payment_method_id"] = st.write.Args.PaymentMethodID + " "
	}
	if line, ok := out["address1"].(string); ok {
		out["address1"] = "  " + line
		out["state"] = " " + strings.ToLower(out["state"].(string))
		if out["address2"] == "" {
			delete(out, "address2")
		}
	}
	m.shuffle(out)
	return out
}

// shuffle brings items into another order, pairs together.
func (m *mixer) shuffle(args map[string]any) {
	old, _ := args["item_ids"].([]string)
	to, paired := args["new_item_ids"].([]string)
	old, to = slices.Clone(old), slices.Clone(to)
	m.rng.Shuffle(len(old), func(i, j int) {
		old[i], old[j] = old[j], old[i]
		if paired {
			to[i], to[j] = to[j], to[i]
		}
	})
	if len(old) > 0 {
		args["item_ids"] = old
	}
	if paired {
		args["new_item_ids"] = to
	}
}

// changed has another argument beside the identity, or is nil where there is none.
func changed(st *step) map[string]any {
	out := arguments(st.write)
	switch st.write.Tool {
	case retail.Cancel:
		out["reason"] = "another reason"
	case retail.OrderItems, retail.Return, retail.Exchange:
		out["payment_method_id"] = "gift_card_1111111"
	default:
		return nil
	}
	return out
}
