// Package conformance holds the gateway against what others made: the official conformance
// suite of the protocol, the Inspector, the SDKs' clients, and servers from npm that have
// effects of their own. `make conformance` installs them, pinned by package-lock.json and
// go.mod, and runs the tests. It is a module of its own, so that pawl depends on none of
// them; nothing of them is in the tree.
package conformance
