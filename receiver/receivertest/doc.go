// Package receivertest holds any HTTP service with an Idempotency-Key to the vectors that
// package receiver keeps: what the IETF draft asks, and what stricter services promise. It
// is pointed at a URL and reports what it found; Run does the same in a test.
//
// Some vectors need the service to misbehave on purpose. A service under test may obey the
// header Receiver-Drill in its handler, in a build for tests alone:
//
//	wait=300ms    wait before answering
//	status=500    make the change, then answer with the status
//	panic         make the change, then panic
//	size=2000000  answer with so many bytes
//	record        make the change, then let the record of the key fail
//	crash         make the change, then let the process die before the answer leaves
//
// and tell how many changes it has made at the path /effects: {"count": 3}. A vector whose
// means are missing is reported as not tried. The numbers are those of docs/receiver.md.
package receivertest
