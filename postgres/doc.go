// Package postgres keeps operations in one schema of a PostgreSQL database.
//
// # Writing
//
//	callers    encode, then queue and wait              (many)
//	queue      writes that wait; may be withdrawn
//	writers    take all that wait: BEGIN, one INSERT of many rows, one UPDATE of
//	           many rows, COMMIT, in one round trip; then release   (2)
//	readers    look up, list and claim                  (4 connections at most)
//
// A batch is one transaction and each write in it its own decision: the INSERT skips what
// something is in the way of, the UPDATE what has moved on, and both return what they
// wrote. Where one row makes the statement fail, the rows are written one by one. Writes of
// one process that could wait for each other are never under way at the same time.
//
// # Doubt
//
// A commit is believed when the server says COMMIT and nothing else: a warning with it
// means that a standby was not waited for. When the answer is lost the outcome is not
// known, and reading it back would not tell: the row may be visible on a server that is
// about to be replaced, or be written by what is still on its way. So the same statements
// are sent again, and beside them updates that find what they should have left behind. Only
// when that transaction is committed, its callers are told. What cannot be confirmed in
// time is told as pawl.ErrStoreFailed: it may or may not have been written.
//
// # Where the store is
//
// Each write compares the server's timeline and the settings on which durability rests
// with those that were found sound, and writes nothing where they differ. A server that was
// promoted is accepted by a process that saw every commit wait for a standby, and that
// process confirms it for the others; otherwise, and where a store is opened in another
// cluster, database or schema than it was last confirmed in, Recovery says so, or writes
// are refused until Confirm. It cannot tell a copy of the whole server that went on without
// a promotion.
//
// # What it relies on
//
// No setting of a session is read or left behind, nothing is locked beyond a transaction
// and nobody listens, and statements are unnamed and carry the types of their parameters: so
// a pooler in transaction mode may stand in between. Where a connection is found to have a
// session of its own, what is sent often is prepared there.
package postgres
