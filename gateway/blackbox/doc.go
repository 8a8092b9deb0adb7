// Package blackbox tests the gateway from outside: the pawl binary between a client and an
// upstream that are both written for the purpose, on stdio and over HTTP, in both eras of the
// protocol. It plays every way in which a call can be lost, the habits of real clients, and
// many callers at once, and measures what the gateway adds. Effects and requests are counted
// in the upstream's own files. docs/mcp-faults.md lists the faults and what became of them;
// the package has no code to import.
package blackbox
