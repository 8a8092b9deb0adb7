package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// RunReport is a run as its record stands: what it did and, where it was called off, what
// has become of each operation.
type RunReport struct {
	Run   *Run      `json:"run"`
	Items []RunItem `json:"items"`
	// Message sums it up in words.
	Message string `json:"message"`
}

// RunItem is one operation of a run, in the order in which they began. Compensations are not
// items of their own.
type RunItem struct {
	Operation ID     `json:"operation"`
	Actor     string `json:"actor,omitempty"`
	Step      string `json:"step,omitempty"`
	Tool      string `json:"tool"`
	Effect    string `json:"effect"`
	Status    Status `json:"status"`
	Reason    Reason `json:"reason,omitempty"`
	// Outcome says what has become of it since the run was called off.
	Outcome UndoOutcome `json:"outcome,omitempty"`
	// Why says of what is not undone why it is not.
	Why string `json:"why,omitempty"`
	// Compensation is the operation that undoes it, where there is one, and CompensationStatus
	// where that stands.
	Compensation       ID     `json:"compensation,omitzero"`
	CompensationStatus Status `json:"compensation_status,omitempty"`
	// Corrective says what people can do about it instead, Leaves what its compensation leaves.
	Corrective string `json:"corrective,omitempty"`
	Leaves     string `json:"leaves,omitempty"`
}

// UndoOutcome says what has become of an operation whose run was called off.
type UndoOutcome string

const (
	Undone      UndoOutcome = "undone"       // it happened and a confirmed compensation undid it
	Undoing     UndoOutcome = "undoing"      // it happened and is yet to be undone
	NotUndoable UndoOutcome = "not_undoable" // it happened and there is no way to undo it
	UndoRefused UndoOutcome = "refused"      // it happened and its compensation did not
	UndoUnknown UndoOutcome = "unknown"      // it, or its compensation, is in doubt
	NoEffect    UndoOutcome = "no_effect"    // it did not happen
)

// RunReport reports a run. The error is ErrNotFound or the store's.
func (e *Executor) RunReport(ctx context.Context, tenant, run string) (*RunReport, error) {
	r, err := e.store.GetRun(ctx, tenant, run)
	if err != nil {
		return nil, err
	}
	ops, err := e.operationsOf(ctx, r)
	if err != nil {
		return nil, err
	}
	undoing := map[ID]*Operation{}
	for _, op := range ops { // the newest first, so the latest generation stays
		if undoing[op.Undoes] == nil {
			undoing[op.Undoes] = op
		}
	}
	report := &RunReport{Run: r, Items: []RunItem{}}
	now := e.now(ctx)
	for i := len(ops) - 1; i >= 0; i-- {
		if op := ops[i]; op.Undoes == (ID{}) {
			item := itemOf(op, undoing[op.ID])
			if r.Status != RunOpen {
				e.outcome(&item, op, undoing[op.ID], now)
			}
			report.Items = append(report.Items, item)
		}
	}
	report.Message = report.summary()
	return report, nil
}

func itemOf(op, by *Operation) RunItem {
	item := RunItem{Operation: op.ID, Actor: op.Actor, Step: op.Step, Tool: op.Tool, Effect: op.Effect, Status: op.Status, Reason: op.Reason}
	if by != nil {
		item.Compensation, item.CompensationStatus = by.ID, by.Status
	}
	return item
}

// outcome says what has become of an operation whose run was called off.
func (e *Executor) outcome(item *RunItem, op, by *Operation, now time.Time) {
	switch {
	case op.Contract == nil:
		item.Outcome, item.Why = UndoUnknown, op.notCompensable()
	case op.Status == Compensated:
		item.Outcome = Undone
		if op.Contract.Compensation != nil {
			item.Leaves = op.Contract.Compensation.Leaves
		}
	case op.Status == FailedNoEffect:
		item.Outcome = NoEffect
	case op.Status != Succeeded:
		item.Outcome, item.Why = UndoUnknown, "it is not known whether it happened"
		if !op.Review.IsZero() {
			item.Why += "; a person is asked"
		}
	case by == nil:
		item.Outcome, item.Why = Undoing, ""
		if why := e.neverUndone(op, now); why != "" {
			item.Outcome, item.Why, item.Corrective = NotUndoable, why, op.Contract.Corrective
		}
	case e.undoFailed(by, now) != "":
		item.Outcome, item.Why, item.Corrective = UndoRefused, e.undoFailed(by, now), op.Contract.Corrective
	case by.Status == FailedNoEffect && e.neverUndone(op, now) != "":
		item.Outcome, item.Why, item.Corrective = UndoRefused, e.neverUndone(op, now), op.Contract.Corrective
	case by.Status == Unknown:
		item.Outcome, item.Why = UndoUnknown, "it is not known whether its compensation happened"
		if !by.Review.IsZero() {
			item.Why += "; a person is asked"
		}
	default:
		item.Outcome = Undoing
	}
}

// neverUndone says why the compensation of a confirmed operation will not be begun, or ""
// where it may yet.
func (e *Executor) neverUndone(op *Operation, now time.Time) string {
	if why := op.notCompensable(); why != "" {
		return why
	}
	if why := op.undoBarred(later(now, op.undoableFrom())); why != "" {
		return why
	}
	var cannot *undoError
	if _, _, _, err := e.undoing(op); errors.As(err, &cannot) {
		return cannot.why
	}
	return ""
}

// summary says in words how the run stands.
func (r *RunReport) summary() string {
	if r.Run.Status == RunOpen {
		return fmt.Sprintf("The run is open and has %d operations.", len(r.Items))
	}
	count := map[UndoOutcome]int{}
	var corrective []string
	for _, item := range r.Items {
		count[item.Outcome]++
		if item.Corrective != "" && !slices.Contains(corrective, item.Corrective) {
			corrective = append(corrective, item.Corrective)
		}
	}
	var parts []string
	for _, x := range []struct {
		outcome UndoOutcome
		text    string
	}{
		{Undone, "undone"}, {Undoing, "being undone"}, {NotUndoable, "cannot be undone"}, {UndoRefused, "could not be undone"},
		{UndoUnknown, "still unknown"}, {NoEffect, "never happened"},
	} {
		if n := count[x.outcome]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, x.text))
		}
	}
	if len(parts) == 0 {
		parts = []string{"there was nothing to undo"}
	}
	s := "The run was called off by " + shown(r.Run.Abort.Who, 80) + ": " + strings.Join(parts, ", ") + "."
	if len(corrective) > 0 {
		s += " To do: " + strings.Join(corrective, "; ") + "."
	}
	return s
}
