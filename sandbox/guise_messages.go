package sandbox

import "net/http"

// messageGuises are providers of messages, issues and events.
func messageGuises() []*guise {
	return []*guise{
		{
			name: "resend/emails.send", method: "POST", path: "/emails", prefix: "email", failed: resendFailed,
			mode: keys(func(m *Mode) { m.OnMismatch = OnMismatch409 }),
			done: func(o *played) reply { return reply{status: 200, body: map[string]any{"id": o.ID}} },
		},
		{
			name: "twilio/messages.create", method: "POST", path: "/2010-04-01/Accounts/{id}/Messages.json", form: true, prefix: "SM",
			mode: noKeys(0), failed: twilioFailed,
			found: func(_ string, fields map[string]any) []term {
				return []term{{"From", textOf(fields, "From")}, {"To", textOf(fields, "To")}}
			},
			done: func(o *played) reply { return reply{status: 201, body: twilioMessage(o)} },
			reads: []guiseRead{{
				method: "GET", path: "/2010-04-01/Accounts/{id}/Messages.json",
				terms: func(q *guiseQuery) []term {
					return []term{{"From", q.query.Get("From")}, {"To", q.query.Get("To")}}
				},
				shows: func(found []*played, more bool) reply {
					var next any
					if more {
						next = "/2010-04-01/Accounts/Messages.json?Page=1"
					}
					return reply{status: 200, body: map[string]any{"messages": each(found, func(o *played) any { return twilioMessage(o) }), "next_page_uri": next}}
				},
			}},
		},
		{
			name: "sendgrid/mail.send", method: "POST", path: "/v3/mail/send", prefix: "mail", mode: noKeys(0),
			done: func(o *played) reply { return reply{status: 202, header: map[string]string{"X-Message-Id": o.ID}} },
			failed: func(f failing) reply {
				status := f.status
				if f.code == "declined" {
					status = 400
				}
				return reply{status: status, body: map[string]any{"errors": []any{map[string]any{"message": f.message, "field": nil}}}}
			},
		},
		{
			name: "github/issues.create", method: "POST", path: "/repos/{owner}/{id}/issues", prefix: "issue", mode: noKeys(0), failed: githubFailed,
			done: func(o *played) reply { return reply{status: 201, body: githubIssue(o)} },
			reads: []guiseRead{{
				method: "GET", path: "/repos/{owner}/{id}/issues", terms: everything,
				shows: func(found []*played, _ bool) reply {
					return reply{status: 200, body: each(found, func(o *played) any { return githubIssue(o) })}
				},
			}},
		},
		{
			name: "github/issues.comments.create", method: "POST", path: "/repos/{owner}/{repo}/issues/{id}/comments", prefix: "comment",
			mode: noKeys(0), failed: githubFailed,
			found: func(path string, _ map[string]any) []term { return []term{{"issue", path}} },
			done: func(o *played) reply {
				return reply{status: 201, body: map[string]any{"id": o.ID, "body": o.Fields["body"]}}
			},
			reads: []guiseRead{{
				method: "GET", path: "/repos/{owner}/{repo}/issues/{id}/comments",
				terms: func(q *guiseQuery) []term { return []term{{"issue", q.path}} },
				shows: func(found []*played, _ bool) reply {
					return reply{status: 200, body: each(found, func(o *played) any { return map[string]any{"id": o.ID, "body": o.Fields["body"]} })}
				},
			}},
		},
		{
			name: "slack/chat.postMessage", method: "POST", path: "/chat.postMessage", prefix: "ts", mode: noKeys(0), failed: slackFailed,
			found: func(_ string, fields map[string]any) []term { return []term{{"channel", textOf(fields, "channel")}} },
			done: func(o *played) reply {
				return reply{status: 200, body: map[string]any{"ok": true, "channel": o.Fields["channel"], "ts": o.ID, "message": slackMessage(o)}}
			},
			reads: []guiseRead{{
				method: "GET", path: "/conversations.history",
				terms: func(q *guiseQuery) []term { return []term{{"channel", q.query.Get("channel")}} },
				shows: func(found []*played, more bool) reply {
					return reply{status: 200, body: map[string]any{"ok": true, "messages": each(found, func(o *played) any { return slackMessage(o) }), "has_more": more}}
				},
			}},
		},
		{
			name: "google-calendar/events.insert", method: "POST", path: "/calendars/{id}/events", prefix: "event", failed: calendarFailed,
			mode: keys(func(m *Mode) {
				m.Carrier, m.Name, m.OnDuplicate, m.Retention = CarrierBody, "id", OnDuplicateConflict, maxLanding
			}),
			done: func(o *played) reply { return reply{status: 200, body: calendarEvent(o)} },
			reads: []guiseRead{{
				method: "GET", path: "/calendars/{calendar}/events/{id}",
				terms: func(q *guiseQuery) []term { return []term{{"key", q.path}} },
				shows: func(found []*played, _ bool) reply {
					if len(found) == 0 {
						return calendarFailed(failing{status: http.StatusNotFound, code: "not_found", message: "Not Found"})
					}
					return reply{status: 200, body: calendarEvent(found[0])}
				},
			}},
		},
	}
}

func everything(*guiseQuery) []term { return nil }

func resendFailed(f failing) reply {
	status, name := f.status, "application_error"
	switch {
	case f.code == "declined":
		status, name = 422, "validation_error"
	case f.code == "key_mismatch":
		status, name = 409, "invalid_idempotent_request"
	case f.code == "key_in_flight":
		status, name = 409, "concurrent_idempotent_requests"
	case f.status == 401:
		name = "missing_api_key"
	case f.status == 403:
		name = "invalid_api_key"
	case f.status == 429:
		name = "rate_limit_exceeded"
	case f.status < 500:
		status, name = 422, "validation_error"
	}
	return reply{status: status, body: map[string]any{"statusCode": status, "name": name, "message": f.message}}
}

func twilioMessage(o *played) map[string]any {
	return map[string]any{
		"sid": o.ID, "body": o.Fields["Body"], "from": o.Fields["From"], "to": o.Fields["To"], "direction": "outbound-api", "status": "queued",
	}
}

func twilioFailed(f failing) reply {
	status, code := f.status, 20500
	switch {
	case f.code == "declined":
		status, code = 400, 21211
	case f.status == 401:
		code = 20003
	case f.status == 429:
		code = 20429
	case f.status < 500:
		code = 20001
	}
	return reply{status: status, body: map[string]any{"code": code, "message": f.message, "more_info": "https://www.twilio.com/docs/errors", "status": status}}
}

func githubIssue(o *played) map[string]any {
	return map[string]any{"number": o.ID, "title": o.Fields["title"], "body": o.Fields["body"], "state": "open"}
}

func githubFailed(f failing) reply {
	r := reply{status: f.status, body: map[string]any{"message": f.message, "documentation_url": "https://docs.github.com/rest"}}
	switch {
	case f.code == "declined":
		r = reply{status: 422, body: map[string]any{"message": "Validation Failed", "documentation_url": "https://docs.github.com/rest"}}
	case f.status == 429:
		r.header = map[string]string{"X-Ratelimit-Remaining": "0"}
	}
	return r
}

func slackMessage(o *played) map[string]any {
	return map[string]any{"type": "message", "ts": o.ID, "text": o.Fields["text"], "metadata": o.Fields["metadata"]}
}

func slackFailed(f failing) reply {
	status, code := 200, "fatal_error"
	switch {
	case f.code == "declined":
		code = "channel_not_found"
	case f.status == 401:
		code = "invalid_auth"
	case f.status == 403:
		code = "missing_scope"
	case f.status == 429:
		status, code = 429, "ratelimited"
	case f.status >= 500:
		status = f.status
	}
	return reply{status: status, body: map[string]any{"ok": false, "error": code}}
}

func calendarEvent(o *played) map[string]any {
	return map[string]any{"kind": "calendar#event", "id": o.Key, "status": "confirmed", "summary": o.Fields["summary"]}
}

func calendarFailed(f failing) reply {
	status, reason := f.status, "backendError"
	switch {
	case f.code == "declined":
		status, reason = 400, "invalid"
	case f.code == "key_conflict", f.code == "key_mismatch", f.code == "key_in_flight":
		status, reason = 409, "duplicate"
	case f.status == 401:
		reason = "authError"
	case f.status == 429:
		reason = "rateLimitExceeded"
	case f.status == 404:
		reason = "notFound"
	case f.status < 500:
		reason = "invalid"
	}
	return reply{status: status, body: map[string]any{"error": map[string]any{
		"code": status, "message": f.message, "errors": []any{map[string]any{"domain": "global", "reason": reason}},
	}}}
}
