// Package draft writes a first contract file for tools that pawl has not met before: from
// the tool list of an MCP server, saved or live, or from an OpenAPI document.
//
// A draft is for a person to confirm. What it promises is one-sided: a tool is drafted as
// read only if its name says so and nothing in its name, description and parameters speaks
// against it; every other tool is drafted as unsafe, which sends once and never again. What
// would allow more, such as keyed or convergent, a probe or a compensation, is written as a
// comment and takes effect only when a person turns it into a term.
//
// Annotations of the server are hints. One that says that a tool writes is believed; one
// that says that it only reads counts only with Options.TrustHints, and never against what
// the tool says itself.
//
// The same input gives the same file, byte for byte.
package draft
