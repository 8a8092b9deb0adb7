package pawl

import (
	_ "embed"
	"encoding/json"
	"time"
)

// Envelope is the structured answer that the model and the host read. Its JSON is
// stable; EnvelopeSchema is its published schema. It never holds an exception's text, a
// secret or, in Message, a word of the provider's.
type Envelope struct {
	Status Status `json:"status"`
	// Reason is the code that Status rests on; programs branch on it.
	Reason Reason `json:"reason,omitempty"`
	// RetrySafe: the same call may be made again without risking a second effect.
	RetrySafe bool `json:"retry_safe"`
	// OperationID is absent for refused calls and reads.
	OperationID string `json:"operation_id,omitempty"`
	// Effect says in words what did, did not, or may have happened.
	Effect string `json:"effect"`
	// ActionTaken says what this call did.
	ActionTaken ActionTaken `json:"action_taken"`
	// Message tells the model what to say and do.
	Message string `json:"message"`
	// NextAction is the same as a code.
	NextAction NextAction `json:"next_action"`
	// Result is the provider's result, Ref its own id of the effect.
	Result    json.RawMessage `json:"result,omitempty"`
	ResultRef string          `json:"result_ref,omitempty"`
	// Differs names free arguments that differ from those that were sent.
	Differs []string `json:"differs,omitempty"`
	// Expires is the time after which the advice no longer holds.
	Expires time.Time `json:"expires,omitzero"`
}

// ActionTaken says what one call did.
type ActionTaken string

const (
	Executed ActionTaken = "executed" // this call began or reopened the operation
	Replayed ActionTaken = "replayed" // answered from the record, nothing sent
	Attached ActionTaken = "attached" // waited for another call of the same operation
	Refused  ActionTaken = "refused"  // nothing sent, no operation of its own begun
	Reported ActionTaken = "reported" // a status was asked for
)

// NextAction says what the caller should do.
type NextAction string

const (
	UseResult   NextAction = "use_result"
	CallAgain   NextAction = "call_again"
	Wait        NextAction = "wait"
	CheckStatus NextAction = "check_status"
	AskUser     NextAction = "ask_user"
	NewStep     NextAction = "new_step"
	Stop        NextAction = "stop"
)

// EnvelopeSchema is the JSON Schema (2020-12) of Envelope.
//
//go:embed envelope.schema.json
var EnvelopeSchema []byte
