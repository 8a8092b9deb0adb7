package pawl

import "time"

// Plan is what a run may do: registered before its first call, and kept as it is.
type Plan struct {
	Steps []PlanStep `json:"steps"`
	// Registered is the time of registration.
	Registered time.Time `json:"registered"`
}

// PlanStep is one step of a plan.
type PlanStep struct {
	// Step is the step that the call names, Tool the tool that it calls.
	Step string `json:"step"`
	Tool string `json:"tool"`
	// MayFail: the step may end without its effect, so that the run has to be undone.
	MayFail bool `json:"may_fail,omitempty"`
	// Irreversible: what it did cannot be undone. It holds also where the contract says so.
	Irreversible bool `json:"irreversible,omitempty"`
}
