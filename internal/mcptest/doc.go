// Package mcptest is what tests of the MCP gateway stand between: an MCP upstream that
// fails on command and counts its effects in files of its own, and the real pawl binary as
// a process that can be killed. The upstream is written on the wire and uses no SDK, so that
// it can break every rule of the protocol.
//
//	client ──▶ pawl wrap | pawl serve (a process) ──▶ Upstream (a process) ──▶ effects, calls
//	                                                    ▲
//	test ── Fail, Release, Kill ────────────────────────┘
//
// A test package that uses it calls Run from its TestMain: the upstream is the test binary
// started again.
package mcptest
