package mcptest

// Fault is what becomes of one call of an effect. All but Die* before the work and Nothing
// do the work first. A fault that a transport does not have is played as its nearest there.
type Fault string

const (
	// DieBefore ends the process before the work, Die after it and without an answer.
	DieBefore Fault = "die_before"
	Die       Fault = "die"
	// Reset resets the TCP connection after the work; on stdio the process ends.
	Reset Fault = "reset"
	// Status400 and its kin answer with that status and a page of text after the work.
	Status400 Fault = "status_400"
	Status404 Fault = "status_404"
	Status500 Fault = "status_500"
	Status503 Fault = "status_503"
	// StreamEnds answers with an event stream that ends without the answer.
	StreamEnds Fault = "stream_ends"
	// CutJSON sends half of the answer, Page an HTML page in its place.
	CutJSON Fault = "cut_json"
	Page    Fault = "page"
	// UnknownContent answers with a content block of a type that no revision knows.
	UnknownContent Fault = "unknown_content"
	// TaskResult answers with the handle of a task that nobody asked for.
	TaskResult Fault = "task"
	// UnknownResult answers with a resultType that no revision knows.
	UnknownResult Fault = "unknown_result"
	// Late answers when the test says so: see Upstream.Release.
	Late Fault = "late"
	// Internal answers with the JSON-RPC error -32603 after the work.
	Internal Fault = "internal"
	// IsError answers with isError after the work.
	IsError Fault = "is_error"
	// StrayLine writes a line of log to stdout before the answer; over HTTP it is a comment
	// in an event stream.
	StrayLine Fault = "stray_line"
	// IDAsString gives the id back as a text.
	IDAsString Fault = "id_as_string"
	// OtherID answers with an id that nobody asked under.
	OtherID Fault = "other_id"
	// Doubled answers twice.
	Doubled Fault = "doubled"
	// Empty does nothing and answers with an empty success.
	Empty Fault = "empty"
)

// works tells whether the work is done before the fault shows.
func (f Fault) works() bool { return f != DieBefore && f != Empty }
