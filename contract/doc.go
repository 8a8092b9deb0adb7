// Package contract reads pawl.yaml: what is declared about upstreams and HTTP tools.
//
// A file is read strictly. Whatever it says that is not understood, or that contradicts
// itself, is a [Problem] with file, line, column, the source line and a sentence that says
// what to write instead; all problems of a file are reported together, and a file with a
// problem yields no tools. What is understood and merely weak is a [Finding] of [Lint].
//
// # From call to bytes
//
//	arguments ──Prepare──▶ stored request ──Send──▶ credentials joined, one attempt
//	            (CEL)      (text, no secret)        (late-bound headers added)
//
// Prepare computes the request once. Its text is stored with the intent, and Send parses
// that text; nothing is derived a second time, so a resend is byte-equal. Two things alone
// are bound late: the values of credentials, of which the text holds only the names, and
// the headers that carry the turn's deadline and the time after which the receiver must
// refuse an arrival, because both belong to an attempt and not to the operation.
//
// # Expressions
//
// Expressions are CEL. Numbers are exact: an integer that fits 64 bits is a CEL int,
// every other number and every identity field declared decimal or money is a decimal that
// compares, adds and multiplies with number literals without rounding. An error in an
// expression never helps: in success it means not success, in match inconclusive, in
// no_effect and accepted no.
//
// # Pinned contracts
//
// A contract's Source is the text of its tool and upstream. An operation that began under
// another text is probed, fenced and sent by that text, with today's credentials and only
// while the upstream's origin is still the same.
package contract
