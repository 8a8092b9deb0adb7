package sandbox

import (
	"time"
)

// paymentGuises are payment providers. Where a provider says nothing of a case, such as two
// requests at once, the answer is made up and no preset may rest on it.
func paymentGuises() []*guise {
	stripeList := func(read string, terms func(q *guiseQuery) []term, show func(o *played) any) []guiseRead {
		return []guiseRead{{method: "GET", path: read, terms: terms, shows: func(found []*played, more bool) reply {
			return reply{status: 200, body: map[string]any{"object": "list", "data": each(found, show), "has_more": more}}
		}}}
	}
	all := func(*guiseQuery) []term { return nil }
	stripeV1 := keys(func(m *Mode) { m.OnError = OnErrorReplay })
	return []*guise{
		{
			name: "stripe/v1/payment_intents.create", method: "POST", path: "/v1/payment_intents", form: true, mode: stripeV1, prefix: "pi",
			replayed: [2]string{"Idempotent-Replayed", "true"}, failed: stripeFailed,
			done:  func(o *played) reply { return reply{status: 200, body: stripeIntent(o)} },
			reads: stripeList("/v1/payment_intents", all, func(o *played) any { return stripeIntent(o) }),
		},
		{
			name: "stripe/v1/refunds.create", method: "POST", path: "/v1/refunds", form: true, mode: stripeV1, prefix: "re",
			replayed: [2]string{"Idempotent-Replayed", "true"}, failed: func(f failing) reply {
				if f.code == "declined" { // a refund has no card error
					f.status, f.code = 400, "charge_already_refunded"
				}
				return stripeFailed(f)
			},
			found: func(_ string, fields map[string]any) []term {
				return []term{{"payment_intent", textOf(fields, "payment_intent")}}
			},
			done: func(o *played) reply { return reply{status: 200, body: stripeRefund(o)} },
			reads: stripeList("/v1/refunds", func(q *guiseQuery) []term {
				return []term{{"payment_intent", q.query.Get("payment_intent")}}
			}, func(o *played) any { return stripeRefund(o) }),
		},
		{
			name: "stripe/v2/core/event_destinations.create", method: "POST", path: "/v2/core/event_destinations", prefix: "ed",
			mode: keys(func(m *Mode) { m.Retention = 30 * 24 * time.Hour }), failed: stripeFailed,
			done: func(o *played) reply { return reply{status: 200, body: stripeDestination(o)} },
			reads: []guiseRead{{method: "GET", path: "/v2/core/event_destinations", terms: all, shows: func(found []*played, more bool) reply {
				var next any
				if more {
					next = "/v2/core/event_destinations?page=next"
				}
				return reply{status: 200, body: map[string]any{
					"data": each(found, func(o *played) any { return stripeDestination(o) }), "next_page_url": next,
				}}
			}}},
		},
		{
			name: "adyen/checkout/payments.create", method: "POST", path: "/v71/payments", prefix: "PSP", failed: adyenFailed,
			mode:     keys(func(m *Mode) { m.Retention = 7 * 24 * time.Hour; m.OnMismatch = OnMismatchIgnore }),
			replayed: [2]string{"Idempotency-Key", "known"},
			done: func(o *played) reply {
				return reply{status: 200, body: map[string]any{"pspReference": o.ID, "resultCode": "Authorised", "merchantReference": o.text("reference")}}
			},
		},
		{
			name: "adyen/checkout/payments.refund", method: "POST", path: "/v71/payments/{id}/refunds", prefix: "PSP", failed: adyenFailed,
			mode: keys(func(m *Mode) { m.Retention = 7 * 24 * time.Hour; m.OnMismatch = OnMismatchIgnore }),
			done: func(o *played) reply {
				return reply{status: 201, body: map[string]any{"pspReference": o.ID, "paymentPspReference": o.Path, "status": "received"}}
			},
		},
		{
			name: "paypal/v2/payments.captures.refund", method: "POST", path: "/v2/payments/captures/{id}/refund", prefix: "RF", failed: paypalFailed,
			mode: keys(func(m *Mode) { m.Name, m.OnDuplicate = "PayPal-Request-Id", OnDuplicateLatest }),
			done: func(o *played) reply {
				return reply{status: created(o), body: map[string]any{"id": o.ID, "status": "COMPLETED", "amount": o.Fields["amount"]}}
			},
		},
		{
			name: "paypal/v2/checkout/orders.capture", method: "POST", path: "/v2/checkout/orders/{id}/capture", prefix: "CP", failed: paypalFailed,
			mode: keys(func(m *Mode) {
				m.Name, m.OnDuplicate, m.Retention = "PayPal-Request-Id", OnDuplicateLatest, 6*time.Hour
			}),
			done: func(o *played) reply {
				return reply{status: created(o), body: map[string]any{"id": o.Path, "status": "COMPLETED", "purchase_units": []any{
					map[string]any{"payments": map[string]any{"captures": []any{map[string]any{"id": o.ID, "status": "COMPLETED"}}}},
				}}}
			},
		},
		squareGuise("square/payments.create", "/v2/payments", "payment"),
		squareGuise("square/refunds.create", "/v2/refunds", "refund"),
		{
			name: "gocardless/payments.create", method: "POST", path: "/payments", prefix: "PM", failed: gocardlessFailed,
			mode: keys(func(m *Mode) { m.OnDuplicate = OnDuplicateConflict }),
			done: func(o *played) reply { return reply{status: 201, body: gocardlessPayment(o)} },
			reads: []guiseRead{{
				method: "GET", path: "/payments/{id}", terms: func(q *guiseQuery) []term { return []term{{"id", q.path}} },
				shows: func(found []*played, _ bool) reply {
					if len(found) == 0 {
						return gocardlessFailed(failing{status: 404, code: "not_found"})
					}
					return reply{status: 200, body: gocardlessPayment(found[0])}
				},
			}},
		},
		{
			name: "increase/ach_transfers.create", method: "POST", path: "/ach_transfers", prefix: "ach_transfer", failed: increaseFailed,
			mode:     keys(func(m *Mode) { m.Retention = maxLanding }),
			replayed: [2]string{"Idempotent-Replayed", "true"},
			done:     func(o *played) reply { return reply{status: 200, body: increaseTransfer(o)} },
			reads: []guiseRead{{
				method: "GET", path: "/ach_transfers", terms: func(q *guiseQuery) []term {
					return []term{{"key", q.query.Get("idempotency_key")}}
				},
				shows: func(found []*played, more bool) reply {
					return reply{status: 200, body: map[string]any{"data": each(found, func(o *played) any { return increaseTransfer(o) }), "next_cursor": nil}}
				},
			}},
		},
		{
			name: "checkout/payments.create", method: "POST", path: "/payments", prefix: "pay", failed: checkoutFailed,
			mode: keys(func(m *Mode) { m.Name, m.OnError = "Cko-Idempotency-Key", OnErrorForget }),
			done: func(o *played) reply {
				return reply{status: 201, body: map[string]any{"id": o.ID, "approved": true, "status": "Authorized", "reference": o.text("reference")}}
			},
		},
		{
			name: "checkout/payments.refund", method: "POST", path: "/payments/{id}/refunds", prefix: "act", failed: checkoutFailed,
			mode:  keys(func(m *Mode) { m.Name, m.OnError = "Cko-Idempotency-Key", OnErrorForget }),
			found: func(path string, _ map[string]any) []term { return []term{{"payment", path}} },
			done: func(o *played) reply {
				return reply{status: 202, body: map[string]any{"action_id": o.ID, "reference": o.text("reference")}}
			},
			reads: []guiseRead{{
				method: "GET", path: "/payments/{id}/actions", terms: func(q *guiseQuery) []term { return []term{{"payment", q.path}} },
				shows: func(found []*played, _ bool) reply {
					return reply{status: 200, body: each(found, func(o *played) any {
						a := map[string]any{"id": o.ID, "type": "Refund", "metadata": o.Fields["metadata"]}
						if o.Status == "done" {
							a["approved"] = true
						}
						return a
					})}
				},
			}},
		},
	}
}

// each shows a list of objects.
func each(found []*played, show func(*played) any) []any {
	list := []any{}
	for _, o := range found {
		list = append(list, show(o))
	}
	return list
}

// created is the status of a first answer, 200 that of the latest state.
func created(o *played) int {
	if o.first {
		return 201
	}
	return 200
}

func stripeIntent(o *played) map[string]any {
	return map[string]any{"id": o.ID, "object": "payment_intent", "amount": o.Fields["amount"], "status": "succeeded", "metadata": o.Fields["metadata"]}
}

func stripeRefund(o *played) map[string]any {
	return map[string]any{"id": o.ID, "object": "refund", "payment_intent": o.Fields["payment_intent"], "status": "succeeded", "metadata": o.Fields["metadata"]}
}

func stripeDestination(o *played) map[string]any {
	return map[string]any{"id": o.ID, "object": "v2.core.event_destination", "name": o.Fields["name"], "status": "enabled", "metadata": o.Fields["metadata"]}
}

func stripeFailed(f failing) reply {
	type e = map[string]any
	status, inner := f.status, e{"type": "api_error"}
	switch {
	case f.code == "declined":
		status, inner = 402, e{"type": "card_error", "code": "card_declined"}
	case f.code == "key_in_flight":
		status, inner = 409, e{"type": "idempotency_error", "code": "idempotency_key_in_use"}
	case f.code == "key_mismatch":
		status, inner = 400, e{"type": "idempotency_error"}
	case f.status == 401, f.status == 403:
		inner = e{"type": "invalid_request_error", "code": "api_key_invalid"}
	case f.status < 500:
		inner = e{"type": "invalid_request_error"}
	}
	inner["message"] = f.message
	return reply{status: status, body: e{"error": inner}}
}

func adyenFailed(f failing) reply {
	body := map[string]any{"status": f.status, "errorCode": "905", "message": f.message, "errorType": "internal"}
	r := reply{status: f.status, body: body}
	switch {
	case f.code == "declined":
		return reply{status: 200, body: map[string]any{"resultCode": "Refused", "refusalReason": "Refused"}}
	case f.code == "key_in_flight":
		r.status = 422
		body["status"], body["errorCode"], body["errorType"] = 422, "704", "validation"
		r.header = map[string]string{"Transient-Error": "true"}
	case f.status == 401:
		body["errorCode"], body["errorType"] = "000", "security"
	case f.code == "rate_limited", f.code == "unavailable":
		body["errorCode"] = "703"
	case f.status < 500:
		body["errorCode"], body["errorType"] = "100", "validation"
	}
	return r
}

func paypalFailed(f failing) reply {
	issue := func(status int, name, issue string) reply {
		return reply{status: status, body: map[string]any{
			"name": name, "message": f.message, "debug_id": "90957fca61718", "details": []any{map[string]any{"issue": issue}},
		}}
	}
	switch {
	case f.code == "declined":
		return issue(422, "UNPROCESSABLE_ENTITY", "INSTRUMENT_DECLINED")
	case f.code == "key_mismatch":
		return issue(422, "UNPROCESSABLE_ENTITY", "PAYPAL_REQUEST_ID_PREVIOUSLY_USED")
	case f.code == "key_in_flight":
		return issue(409, "RESOURCE_CONFLICT", "PREVIOUS_REQUEST_IN_PROGRESS")
	case f.status == 401:
		return reply{status: 401, body: map[string]any{"error": "invalid_token", "error_description": f.message}}
	case f.status >= 500:
		return issue(f.status, "INTERNAL_SERVER_ERROR", "INTERNAL_SERVICE_ERROR")
	}
	return issue(f.status, "INVALID_REQUEST", "INVALID_REQUEST")
}

func squareGuise(name, path, noun string) *guise {
	return &guise{
		name: name, method: "POST", path: path, prefix: noun,
		mode: keys(func(m *Mode) { m.Carrier, m.Name = CarrierBody, "idempotency_key" }),
		done: func(o *played) reply {
			return reply{status: 200, body: map[string]any{noun: map[string]any{"id": o.ID, "status": "COMPLETED", "amount_money": o.Fields["amount_money"]}}}
		},
		failed: func(f failing) reply {
			wrong := func(status int, category, code string) reply {
				return reply{status: status, body: map[string]any{"errors": []any{map[string]any{"category": category, "code": code, "detail": f.message}}}}
			}
			switch {
			case f.code == "declined" && noun == "refund":
				return wrong(400, "REFUND_ERROR", "REFUND_DECLINED")
			case f.code == "declined":
				return wrong(402, "PAYMENT_METHOD_ERROR", "CARD_DECLINED")
			case f.code == "key_mismatch":
				return wrong(400, "INVALID_REQUEST_ERROR", "IDEMPOTENCY_KEY_REUSED")
			case f.code == "key_in_flight":
				return wrong(409, "API_ERROR", "CONFLICT")
			case f.status == 401:
				return wrong(401, "AUTHENTICATION_ERROR", "UNAUTHORIZED")
			case f.status == 429:
				return wrong(429, "RATE_LIMIT_ERROR", "RATE_LIMITED")
			case f.status >= 500:
				return wrong(f.status, "API_ERROR", "INTERNAL_SERVER_ERROR")
			}
			return wrong(f.status, "INVALID_REQUEST_ERROR", "BAD_REQUEST")
		},
	}
}

func gocardlessPayment(o *played) map[string]any {
	return map[string]any{"payments": map[string]any{
		"id": o.ID, "status": "pending_submission", "amount": at(o.Fields, "payments", "amount"), "metadata": at(o.Fields, "payments", "metadata"),
	}}
}

func gocardlessFailed(f failing) reply {
	wrong := func(status int, kind string, errs ...any) reply {
		return reply{status: status, body: map[string]any{"error": map[string]any{
			"code": status, "type": kind, "message": f.message, "request_id": "dd50eaaf", "errors": append([]any{}, errs...),
		}}}
	}
	switch {
	case f.code == "declined":
		return wrong(422, "validation_failed", map[string]any{"field": "amount"})
	case f.code == "key_conflict":
		return wrong(409, "invalid_state", map[string]any{
			"reason": "idempotent_creation_conflict", "links": map[string]any{"conflicting_resource_id": f.resource},
		})
	case f.code == "key_in_flight", f.code == "key_mismatch":
		return wrong(409, "invalid_state", map[string]any{"reason": "idempotent_creation_in_progress"})
	case f.status == 401:
		return wrong(401, "invalid_api_usage")
	case f.status >= 500:
		return wrong(f.status, "gocardless")
	}
	return wrong(f.status, "invalid_api_usage")
}

func increaseTransfer(o *played) map[string]any {
	return map[string]any{"id": o.ID, "type": "ach_transfer", "amount": o.Fields["amount"], "status": "pending_approval", "idempotency_key": o.Key}
}

func increaseFailed(f failing) reply {
	body := map[string]any{"status": f.status, "type": "internal_server_error", "title": f.message, "detail": nil}
	r := reply{status: f.status, body: body}
	switch {
	case f.code == "declined":
		r.status, body["status"], body["type"] = 400, 400, "invalid_parameters_error"
	case f.code == "key_mismatch":
		r.status, body["status"], body["type"], body["resource_id"] = 409, 409, "idempotency_key_already_used_error", f.resource
	case f.code == "key_in_flight":
		r.status, body["status"], body["type"] = 409, 409, "invalid_operation_error"
	case f.status == 401:
		body["type"] = "invalid_api_key_error"
	case f.status == 429:
		body["type"] = "rate_limited_error"
	case f.status == 404:
		body["type"] = "object_not_found_error"
	case f.status < 500:
		body["type"] = "invalid_parameters_error"
	}
	return r
}

func checkoutFailed(f failing) reply {
	body := map[string]any{"request_id": "0HL80RJLS76I7", "error_type": "request_invalid", "error_codes": []any{f.code}}
	switch {
	case f.code == "declined":
		return reply{status: 201, body: map[string]any{"id": "pay_declined", "approved": false, "status": "Declined"}}
	case f.code == "key_in_flight":
		return reply{status: 429}
	case f.code == "key_mismatch":
		return reply{status: 409} // nothing is documented
	case f.status >= 500:
		return reply{status: f.status}
	case f.status == 401, f.status == 429:
		return reply{status: f.status}
	}
	return reply{status: 422, body: body}
}
