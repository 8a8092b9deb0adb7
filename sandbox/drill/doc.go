// Package drill puts a whole domain through the daemon and asks whether the provider's
// database is, task by task, what it has to be.
//
// Each task of package retail is a tenant with a shop of its own, and a run whose steps are
// the task's writes. The drill plays the host: it makes each call over the daemon's HTTP
// API, makes it again when the answer says that nothing happened and that it may, waits
// while the outcome is not known, and goes on to the next step. What is left for a person
// it settles as a person would, from the shop's own ledger, and counts. The daemon is the
// real binary in processes of its own, which are killed and started again on the same
// store.
//
//	script ──▶ host ──▶ daemon ──▶ faults ──▶ shop ─┐
//	   └───────────────────────────────────▶ shop ─┴─▶ equal?
//
// What has to be is the same script carried out at a second shop, each step once, with
// neither daemon nor faults in between. Nothing is judged by the daemon's record.
package drill
