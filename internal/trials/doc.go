// Package trials plays field reports against the real thing: calls with side effects that
// went wrong in public projects, each a script that a reviewer can read, run against the
// executor, a store (a SQLite file, and PostgreSQL besides where the store has a part in it),
// tools compiled from a contract file and the sandbox as provider, over loopback sockets.
// Effects and requests are counted in the sandbox's own ledger. docs/trials.md lists every
// trial; the package has no code to import.
package trials
