package blackbox

import "github.com/pawl-dev/pawl/internal/mcptest"

// A row is one way to go wrong.
type row struct {
	// name says what the upstream does, as the document has it.
	name string
	// fault is what becomes of the call; none if play alone makes the row.
	fault mcptest.Fault
	// web: it can only happen over HTTP.
	web bool
	// play makes the call and what belongs to it; nil means the call alone.
	play func(p *play)
	// probed and blind are the statuses in which an operation may end: of a tool that can be
	// asked whether the effect exists, and of one that cannot.
	probed, blind string
	// effects is how many there are in the end, as long as nobody repeats the call.
	effects int
}

const (
	succeeded = "SUCCEEDED"
	noEffect  = "FAILED_NO_EFFECT"
	unknown   = "UNKNOWN"
)

// rows is the matrix.
var rows = []row{
	{"answers", "", false, nil, succeeded, succeeded, 1},
	{"resets the connection after the work", mcptest.Reset, true, nil, succeeded, unknown, 1},
	{"answers 500 after the work", mcptest.Status500, true, nil, succeeded, unknown, 1},
	{"answers 503 after the work", mcptest.Status503, true, nil, succeeded, unknown, 1},
	{"answers 400 with a text after the work", mcptest.Status400, true, nil, succeeded, unknown, 1},
	{"answers 404 with a text after the work", mcptest.Status404, true, nil, succeeded, unknown, 1},
	{"ends its event stream without the answer", mcptest.StreamEnds, true, nil, succeeded, unknown, 1},
	{"sends half of the answer", mcptest.CutJSON, false, nil, succeeded, unknown, 1},
	{"sends a page of HTML for the answer", mcptest.Page, false, nil, succeeded, unknown, 1},
	{"answers with content of an unknown type", mcptest.UnknownContent, false, nil, succeeded, unknown, 1},
	{"answers with a task that nobody asked for", mcptest.TaskResult, false, nil, succeeded, unknown, 1},
	{"answers with an unknown resultType", mcptest.UnknownResult, false, nil, succeeded, unknown, 1},
	{"answers -32603 after the work", mcptest.Internal, false, nil, succeeded, unknown, 1},
	{"answers isError after the work", mcptest.IsError, false, nil, succeeded, unknown, 1},
	{"exits after the work", mcptest.Die, false, (*play).restarted, succeeded, unknown, 1},
	{"exits before the work, with the call read", mcptest.DieBefore, false, (*play).restarted, noEffect, unknown, 0},
	{"claims an empty success and did nothing", mcptest.Empty, false, nil, noEffect, unknown, 0},
	{"writes a line of log before the answer", mcptest.StrayLine, false, nil, succeeded, succeeded, 1},
	{"gives the id back as a text", mcptest.IDAsString, false, nil, succeeded, succeeded, 1},
	{"answers under an id that nobody asked under", mcptest.OtherID, false, nil, succeeded, unknown, 1},
	{"answers twice", mcptest.Doubled, false, nil, succeeded, succeeded, 1},
	{"answers after the call's time", mcptest.Late, false, (*play).late, succeeded, succeeded, 1},
	{"answers after the caller hung up", mcptest.Late, false, (*play).callerGone, succeeded, succeeded, 1},
	{"was killed before the call", "", false, (*play).killed, succeeded, succeeded, 1},
	{"works while the gateway is killed", mcptest.Late, false, (*play).gatewayKilled, succeeded, unknown, 1},
}
