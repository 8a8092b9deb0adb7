// Package gateway is the MCP door: a server of the Model Context Protocol that fronts the
// MCP upstreams of a contract file. It speaks stdio and streamable HTTP, in the legacy
// revisions of the protocol and in the modern ones, whatever the upstream speaks.
//
//	client ──▶ stdio │ HTTP ──▶ exchange ──┬── read, list, prompt, … ──▶ upstream
//	                            │          └── effect ──▶ pawl.Executor ──▶ port ──▶ upstream
//	                            ◀── questions, progress, notices ──────────────────────┘
//
// Messages pass as the bytes that came, so that fields nobody here knows survive. What the
// gateway changes is little: names get a prefix where several upstreams share a door, the
// places of a key leave a tool's schema, and pawl's own tool and rule are added.
//
// A call of a tool that may have an effect becomes a pawl.Call. Its identity never depends
// on the JSON-RPC id. The attempt is detached from the caller: who hangs up or asks again
// ends nothing and repeats nothing.
package gateway
