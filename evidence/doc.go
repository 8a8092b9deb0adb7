// Package evidence carries effects over HTTP and says what each attempt proves.
//
// Transport puts at most one request on the wire per Attempt and records what happened
// around it: whether there was a connection, how many bytes were begun, how much of the
// body was asked for, typed refusals, the answer. It follows no redirect, keeps no
// cookie, asks for no compression and repeats nothing. Classify turns such an
// Observation into pawl.Evidence.
//
// The order of proof is:
//
//	no connection was handed over      NOT_SENT  P1  no_connection
//	no byte was begun on it            NOT_SENT  P1  no_bytes
//	a needed body was never asked for  NOT_SENT  P1  no_body        (no answer seen)
//	the protocol refused the request   REJECTED  P2  refused_stream (no answer seen)
//	an answer was seen                 the contract's predicates, then the status table
//	otherwise                          AMBIGUOUS
//
// Deadlines, cancellations, resets and error texts decide nothing.
//
// The proofs hold because a connection carries one effect at a time and is shut before
// its counters are read: what the counters have not seen by then can never leave. A
// write counts from the moment it is begun, and only a write that returned can take back
// what the kernel did not accept. Under TLS the counted bytes include the records of TLS
// itself, such as a closing alert, and under HTTP/2 the frames of the connection; both
// can only turn a NOT_SENT into an AMBIGUOUS.
//
// One thing is left to the program. When an upstream sends bytes that nobody asked for,
// behind an answer or on an idle connection, net/http prints them to the standard logger
// of package log, and no setting of a transport keeps it from that. They may hold anything,
// such as a credential that an earlier request carried. A program whose log others read
// turns that logger off: log.SetOutput(io.Discard).
package evidence
