// Package api is the HTTP door to an executor: calls, operations, decisions and tools as
// JSON, changes as server-sent events, described by the OpenAPI 3.1 document that it serves.
//
//	request ─▶ host and origin ─▶ token, scope ─▶ room ─▶ strict JSON ─▶ huma ─▶ executor
//	              403                401, 403      429    400, 413, 415    422      200
//
// Every business outcome of a call, refusals included, is 200 with the envelope. Anything
// else is a [Problem]: application/problem+json with a code, which says what is wrong and
// where and repeats nothing of what was sent.
//
// A caller that hangs up changes nothing: its turn goes on to an outcome, and the same call
// made again attaches to it or replays it.
//
// What a handler needs from whoever serves it: timeouts and limits of connections and
// headers, which only an http.Server can set, and TLS or a proxy with it beyond loopback.
package api
