// Package sqlite keeps operations in one SQLite file.
//
// # Writing
//
//	callers          encode, then queue and wait          (many)
//	queue            writes that wait; may be withdrawn
//	writer           BEGIN IMMEDIATE, apply all that wait, COMMIT, release
//	WAL              grown once, written and synced once by every commit
//	checkpointer     moves the WAL into the file meanwhile
//
// One goroutine at a time writes: the writer's own, or a caller's who is alone. It takes
// every write that waits, applies each by conditional statements in one transaction, and
// releases the callers when the commit is on stable storage; a write whose own condition
// fails is told so and leaves the others alone. Any number of processes may share one file: each has its writer, and SQLite's
// lock decides between them.
//
// # Failing
//
// Durability rests on WAL mode with synchronous=FULL, both verified at Open. After an I/O
// error that is not "no space", "busy" or "read-only" the store takes no more writes, from
// whatever connection the error came: pages that failed to sync may be gone from the
// cache, and only opening again finds out. When space runs out, a reserve file beside the
// database is removed so that outcomes can be written; operations begin again when the
// reserve could be made anew.
//
// Every row is sealed by checksums and every contract named by its hash, verified whenever
// they are read. Get, History and Begin answer ErrCorrupt for a row that fails, or whose
// contract does; Find lists it as UNKNOWN with reason row_refused; Claim takes it out of
// the queue and into review. Check examines the file as a whole.
//
// # Which file this is
//
// The store remembers the file system and inode of its file, and its WAL is never removed.
// Recovery says so when either is not as it was left: a copied or restored file, or one
// whose WAL is gone, may lack what had been acknowledged. It cannot tell a copy that was
// written over the old file in place, nor a disk that was copied whole; and it also speaks
// up after another program was the last to close the file and removed an empty WAL.
package sqlite
