// Package receiver is the other end: it makes a service that you own carry out each request
// with a key once, and prove to whoever asks that a request was carried out or never will
// be. The record of the key and the change that the request makes are one transaction of
// the service's own database, so a crash leaves both or neither.
//
//	r := receiver.New(db, receiver.PostgreSQL, account, nil)
//	mux.Handle("POST /moves", r.Wrap(move))          // move works in receiver.Tx(r.Context())
//	mux.Handle("GET /moves/{key}", r.Record("POST")) // ?fence=1 makes absence final
//
// What a key can be:
//
//	          ┌── Fence, Undo ──▶ fenced: refused for good
//	absent ───┤
//	          └── Once ──▶ in flight ── commit ──▶ done ──▶ expired ──▶ forgotten
//	                          │                      └── Undo ──▶ undone: refused
//	                          └── rolled back ──▶ absent
//
// Where a request has effects outside the database it is claimed before (Begin), and what
// does not end is unknown until somebody settles it (Settle). Nothing depends on a lease.
//
// It follows the draft "The Idempotency-Key HTTP Header Field" of the IETF's HTTPAPI group
// and is stricter where the draft leaves room; docs/receiver.md says where. It imports the
// standard library alone and works on SQLite and PostgreSQL through database/sql; receiverpgx
// does the same in transactions of pgx. Any number of processes may share a database, which
// must be the primary: a replica cannot tell that a request did not come.
package receiver
