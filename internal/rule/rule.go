// Package rule names the protocol's rules that packages below the root keep, each at the one
// place that keeps it. Every rule holds. Only in a build with the tag mutants does the
// environment variable PAWL_MUTANT name one that does not, and then a test fails: make
// mutants shows it. The root has its own list in rules.go, since it imports nothing of ours.
package rule

// Rule is what must be so for the promises to hold.
type Rule string

const (
	// OneRequest: an attempt puts at most one request on the wire.
	OneRequest Rule = "one-request"
	// GivenUpIsDropped: what the kernel still holds of an attempt that was given up never leaves.
	GivenUpIsDropped Rule = "given-up-is-dropped"
	// UnlistedIsUnknown: an answer that neither contract nor status table lists proves nothing.
	UnlistedIsUnknown Rule = "unlisted-is-unknown"
	// EchoesAreHidden: a credential that an answer repeats is kept nowhere.
	EchoesAreHidden Rule = "echoes-are-hidden"
	// CredentialsJoinAtSend: what is stored holds no credential.
	CredentialsJoinAtSend Rule = "credentials-join-at-send"
	// WritesAreCompared: a change is written only over the version and token it was decided on.
	WritesAreCompared Rule = "writes-are-compared"
	// FailStop: after an I/O error a store takes no more writes.
	FailStop Rule = "fail-stop"
	// RowsAreChecked: a row whose seal does not fit is refused.
	RowsAreChecked Rule = "rows-are-checked"
	// ToolErrorsAreDoubt: what a tool of MCP says went wrong does not say that nothing happened.
	ToolErrorsAreDoubt Rule = "tool-errors-are-doubt"
	// WrittenIsSent: a byte that a child's pipe took counts as sent, whatever became of the child.
	WrittenIsSent Rule = "written-is-sent"
	// QuestionsFindTheirClient: a server's question reaches no client but the one it is for.
	QuestionsFindTheirClient Rule = "questions-find-their-client"
)
