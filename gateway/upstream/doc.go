// Package upstream speaks to MCP servers: to children over their pipes, and over HTTP, in
// the legacy revisions of the protocol and in the modern ones.
//
//	Set ──▶ Upstream ──▶ session (one per era and asking client) ──▶ child's pipes
//	                                                            └──▶ HTTP
//
// A request of any method passes with its raw params, and its answer with the raw result or
// error. What a server asks or tells in the meantime goes to the [Caller] of that request.
// Nothing is sent a second time: a session that dies ends the calls that were written to it
// with [ErrLost] and those that were not with [ErrUnsent], and the next call gets a new
// session. The one exception has no effect by its nature: a read that a server refused
// because it had forgotten the session is made in a new one.
//
// Effects come through package contract, whose ports call [Set.CallTool]. They take the
// same way, and everything that can be observed around the one request is reported.
package upstream
