// Package notify tells an operator by one webhook that an operation waits for a person, and
// that it does so no longer.
//
//	executor ──changed──▶ Notifier ──wakes──┐
//	                                        ▼
//	store's reviews ──gather──▶ outbox ──take──▶ POST, signed ──2xx──▶ told
//	                              ▲                   │
//	                              └──── later, at most Tries times
//
// What is told is found in the store and not in what passes by, so that nothing is lost with
// a process; the executor's changes only wake whoever looks. Any number of processes share
// one outbox: each notice is taken by one of them at a time. A receiver may get one twice,
// when a process dies between its answer and the record of it, and then under the same
// webhook-id.
//
// Requests and signatures are those of Standard Webhooks 1.0.0. The body names the
// operation, never its arguments.
package notify
