package pawl

import "encoding/json"

// Call is one request to have a tool's effect happen once.
type Call struct {
	// Tool is the registered name.
	Tool string
	// Args are the arguments as the model wrote them: a JSON object. They are read
	// strictly; the canonical form is what is stored, keyed and sent.
	Args json.RawMessage
	// Run, ParentRun and Step come from the host application, never from the model. A call
	// without a step has the whole run as its scope.
	Run       string
	ParentRun string
	Step      string
	// Again is the host's word that an effect which this run already had is wanted once
	// more; it counts only with a new step.
	Again bool
	// Await lets a call that needs a yes wait for it until the end of its turn. Otherwise it is
	// answered at once, and the same call again, after the yes, sends it.
	Await bool
	// Tenant and Actor come from the authenticated principal; both may be empty.
	Tenant string
	Actor  string
	// Attributes are labels for the record, such as a tool-call id. Never identity.
	Attributes map[string]string
	// Trace is the W3C trace context of the caller, the value of its header traceparent. It
	// goes on to providers; one that has another form is ignored.
	Trace string
}
