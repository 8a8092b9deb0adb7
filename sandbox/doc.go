// Package sandbox is a pretend provider: services with side effects over real HTTP, whose
// contracts can be chosen, whose failures can be ordered, and whose own ledger tells what
// happened in truth. Teams try their contracts against it; pawl's drills count effects in
// it. Nothing in it shares code or data with an executor: the ledger is a file of its own.
//
//	caller ──▶ /v1/…    services: key, work and effect in one transaction
//	             │        a fault line decides what becomes of the request
//	           ledger     one row per effect, one row per request received
//	             │
//	people ──▶ /admin/… modes, faults, clock, holds, ledger
//
// A request is recorded when its headers have arrived. Its effect and the memory of its
// key are on stable storage before the first byte of the answer leaves, so a client that
// has read a success finds the effect in the ledger, also after the sandbox was killed. An
// effect whose answer never came is in the ledger too: it is what pawl must find.
//
// # Form of requests and answers
//
// Bodies are JSON objects with Content-Type: application/json, at most 1 MiB, read
// strictly; an unknown field is refused. Texts may be sent as numbers, whose digits are
// kept. An amount is a decimal number in the currency's main unit, as text or number;
// answers give it as amount (text) and amount_minor (integer). Instants are RFC 3339 in
// UTC. Every answer has the header Pawl-Sandbox-Request, the seq of the request. An error is
//
//	{"error": {"code": "…", "message": "…", "field"?: "…", "resource_id"?: "…"}}
//
// Request headers: the key's header (Mode.Name); Pawl-Run and Pawl-Step, recorded with
// requests and effects; Pawl-Sandbox-Fault, a fault line (see [Fault]); Pawl-Not-After, an
// instant that stock adjustments obey.
//
// Lists answer {"data": […], "has_more": bool}, oldest first, with limit (1 to 200,
// default 50) and after (the id of the last object seen), and filter by equality; filters
// join by AND, also several of one name. Where metadata is a field, metadata.NAME is a filter. key finds objects by
// the key that was honoured for them. Lists show an object when it has landed and
// [Mode].Lag has passed; a read by id shows it at once, as status pending until it lands.
//
// # Services
//
//	POST /v1/charges                kind charge.create, subject: the order
//	    order_id, amount, currency; card?, description?, metadata?
//	    → 201 {id, order_id, amount, amount_minor, currency, refunded, refunded_minor,
//	      status: succeeded|refunded, card, description, key, metadata, created_at}
//	    402 card_declined if card begins with "declined"
//	GET  /v1/charges?key=&order_id=  GET /v1/charges/{id}
//
//	POST /v1/refunds                kind refund.create, subject: the order
//	    charge_id or order_id, amount, currency; reason?, metadata?
//	    by order_id, the oldest charge with enough left is taken
//	    → 201 {id, charge_id, order_id, amount, amount_minor, currency, status: succeeded,
//	      reason, key, metadata, created_at}
//	    404 not_found, 409 not_ready (the charge has not landed), 422 currency_mismatch,
//	    422 amount_exceeds_charge
//	GET  /v1/refunds?key=&order_id=&charge_id=  GET /v1/refunds/{id}
//
//	POST /v1/bookings               kind booking.hotel or booking.flight, subject: ref or item
//	    type (hotel|flight), item, traveller, from (date), to (date, hotels only), amount,
//	    currency; ref?, metadata?
//	    → 201 {id, type, item, traveller, from, to, ref, amount, amount_minor, currency,
//	      status: confirmed|cancelled, key, metadata, created_at}
//	    422 sold_out if item begins with FULL-, 422 date_passed if from is before today
//	POST /v1/bookings/{id}/cancel   kind booking.cancel
//	    reason?
//	    → 200 the booking; 404 not_found, 409 not_ready, 409 already_cancelled (with
//	      resource_id), 422 not_cancellable if item begins with FINAL-
//	GET  /v1/bookings?key=&ref=&item=&traveller=  GET /v1/bookings/{id}
//
//	POST /v1/tickets                kind ticket.create, subject: ext_ref or project
//	    project, title; body?, ext_ref?, marker?, metadata?
//	    → 201 {id, project, title, body, ext_ref, marker, status: open|closed, metadata,
//	      created_at}
//	POST /v1/tickets/{id}/close     kind ticket.close; a closed ticket stays, without effect
//	GET  /v1/tickets?key=&ext_ref=&project=&marker=  GET /v1/tickets/{id}
//
//	POST /v1/emails                 kind email.send, subject: to
//	    to; template?, ref?, subject?, body?
//	    → 201 {id, to, template, ref, status: sent, created_at}
//	    There is no way to read, find or recall a message.
//
//	POST /v1/vms                    kind vm.create, subject: cluster/name
//	    cluster, name; size?, tags? (object of texts), client_token? (the key)
//	    → 202 {id, cluster, name, size, tags, status: pending|running|deleted, created_at}
//	    Names need not be unique.
//	DELETE /v1/vms/{id}             kind vm.delete; 409 not_ready while it is pending; a
//	    deleted machine stays, without effect
//	GET  /v1/vms?key=&cluster=&name=&tag=NAME:VALUE  GET /v1/vms/{id}
//
//	POST /v1/stock/adjustments      kind stock.adjust, subject: sku, amount: delta
//	    sku, delta (integer, not 0); move_id?, not_after? (instant)
//	    → 201 {id, sku, delta, move_id, quantity, status: done, key, created_at}
//	    412 not_after_passed, 422 insufficient_stock, 409 key_cancelled
//	    An unknown sku begins with 0 pieces.
//	POST /v1/stock/cancel           no effect: a fence
//	    key
//	    → 200 {key, status: done, adjustment} if one was made under the key; nothing is undone
//	    → 200 {key, status: cancelled, refused_until?} if none was: until then the key is
//	      refused as 409 key_cancelled; 409 key_in_flight while one is being made
//	GET  /v1/stock/adjustments?key=&sku=&move_id=  GET /v1/stock/adjustments/{id}
//	POST /v1/stock/moves            an adjustment, carried out once by pawl's receiver
//	GET  /v1/stock/moves/{key}      what it has recorded of the key; ?fence=1 fences it
//	GET  /v1/stock/items/{sku}      {sku, quantity, status: counted}
//
//	PUT  /v1/orders/{id}/address    kind order.address, subject: the order; only a change is
//	    an effect
//	    line1, city, postcode, country; line2?
//	    → 200 the order
//	GET  /v1/orders?customer=  GET /v1/orders/{id}
//	    {id, customer, email, amount, amount_minor, currency, address: {line1, line2, city,
//	    postcode, country}, status: paid, created_at}
//
// An effect that another one wholly undoes names it in reversed_by: a charge that is
// refunded in full, a cancelled booking, a closed ticket, a deleted machine.
//
// A new ledger has the paid orders A-1182 (49.90 EUR, Ana Lima), A-1183 (129.00 EUR), A-1184
// (5200 JPY) and A-1185 (1.500 KWD), with a charge for each. Seeding is no effect.
//
// # Keys
//
// [Mode] says what a service does with keys; [DefaultMode] lists what it begins with. A key
// belongs to one service and covers all its writes but /v1/stock/cancel and the address,
// which converge. Answers that concern a key:
//
//	400 key_required     Mode.Required, and there is none
//	400 key_invalid      longer than 255 bytes
//	409 key_in_flight    the first request is being worked on; Retry-After
//	422 key_mismatch     the key came with another method, path or body; 409 by mode
//	409 key_conflict     the key was used; resource_id is what it made
//	409 key_cancelled    a fence refuses it
//	Idempotent-Replayed: true    a header of a recorded answer
//
// A mismatch is told before anything else. Malformed requests (400, 413, 415, 404 of a
// path) are remembered by no mode.
//
// Other answers: 404 no_endpoint, 413 too_large, 415 unsupported_media_type, 400 invalid_json,
// 400 invalid_request, 400 fault_invalid, 503 busy (nothing was done), 503 too_many_held, 507
// ledger_full (nothing was done), 500 ledger_failed.
//
// # Administration
//
// With Options.AdminToken, every request needs Authorization: Bearer TOKEN. Faults do not
// apply and nothing is recorded.
//
//	GET    /admin/ledger     {"effects": [Effect…], "next"?: seq}
//	    ?service= &key= &run= &step= &kind= &subject= &object_id=; &pending=true adds effects
//	    that have not landed; &after=SEQ &limit=N (1 to 10000, default 1000)
//	GET    /admin/requests   {"requests": [Request…], "next"?: seq}
//	    ?service= &key= &run= &step= &method= &after= &limit=
//	    Both answer a table with Accept: text/plain.
//	DELETE /admin/ledger     forget objects, effects, requests, keys, tombstones, faults and
//	    lies; ?demo=false makes no demo orders. Modes and the clock stay.
//	GET    /admin/modes      {"SERVICE": Mode…}
//	PUT    /admin/modes      the same; services and fields that are left out stay as they are
//	GET    /admin/clock      {"now", "advanced"}
//	POST   /admin/clock      {"advance": "25h"}
//	GET    /admin/faults     {"faults": [{"seq", "match", "line", "times"}…]}
//	POST   /admin/faults     {"match"?: {"service"?, "method"?, "path"?, "key"?}, "line",
//	    "times"? (1)} → {"seq"}; the path is whole, or a beginning that ends in *
//	DELETE /admin/faults     empty the queue and end every lie
//	GET    /admin/held       {"held": [seq…]}; ?count=N&wait=10s waits for N of them, 408 if
//	    they do not come
//	POST   /admin/release    {"request"?: seq} → {"released": N}; without a body, all
//	POST   /admin/seed       {"orders": [{"id", "customer"?, "email"?, "amount", "currency"}…]}
//	    → {"seeded": N}; all or none, 409 order_exists
//
// # Clock
//
// The sandbox's clock is the real one plus what was advanced. Landings, lags, retentions,
// tombstones and lies are computed from it when somebody looks; no work goes on in the
// background, and nothing is lost by a restart. The waits of delay and work follow it
// too: they end early when it is advanced past them.
package sandbox
