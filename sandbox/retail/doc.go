// Package retail is a shop behind HTTP: the retail domain of tau-bench, re-created as a
// provider with its own database, prices and refusals, and a ledger of its own effects. It
// knows nothing of pawl: who wants to know what happened in truth asks the Shop.
//
//	Load ──▶ Data ──▶ Provider ──▶ one Shop for each tenant
//
// A Provider serves any number of copies of the shop, each under its tenant's name:
//
//	GET  /TENANT/orders/{id}            GET  /TENANT/users/{id}
//	POST /TENANT/orders/{id}/cancel     PUT  /TENANT/orders/{id}/address
//	POST /TENANT/orders/{id}/items      POST /TENANT/orders/{id}/payment
//	POST /TENANT/orders/{id}/return     POST /TENANT/orders/{id}/exchange
//	PUT  /TENANT/users/{id}/address
//
// A write answers with the order or the user as it is then. A refusal answers 404, 409 or
// 422 with {"error": {"code", "message"}} and changes nothing. There are no keys: nothing
// tells the second arrival of a request from the first but the state that it meets.
//
// Faults come between the client and the shop, before and after the work. However they
// delay a request, one that was written longer ago than the flight is refused with 410.
//
// Contract is the contract file for the seven tools that write.
package retail

import _ "embed"

// Contract is a contract file for the shop's writing tools. Its upstream is at URL.
//
//go:embed pawl.yaml
var Contract string

// URL is where Contract says that the provider is.
const URL = "http://127.0.0.1:4120"
