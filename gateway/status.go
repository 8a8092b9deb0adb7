package gateway

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// statusTool is the tool by which a model asks what became of a call.
const statusTool = "pawl_status"

// statusEntry is the tool as lists show it.
var statusEntry = json.RawMessage(`{"name":"pawl_status","title":"Status of an operation",` +
	`"description":"Tells what became of an earlier tool call: give the operation_id that its answer had. Without one, tells of the latest operations of this run. It only reads.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"operation_id":{"type":"string","pattern":"^op_[0-9a-f]{32}$","description":"The operation_id of an earlier answer."},` +
	`"run":{"type":"string","description":"The run whose operations are meant; default this one."}}},` +
	`"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}`)

// maxReported is how many operations of a run are told of.
const maxReported = 20

// status answers pawl_status, inside the caller's tenant.
func (x *exchange) status(args json.RawMessage) reply {
	var in struct {
		OperationID string `json:"operation_id"`
		Run         string `json:"run"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return failure(invalid("arguments: operation_id and run are texts"))
	}
	ctx, cancel := context.WithTimeout(x.ctx, x.g.opts.ReadTime)
	defer cancel()
	var envelopes []pawl.Envelope
	if in.OperationID != "" {
		id, err := pawl.ParseID(in.OperationID)
		if err != nil {
			return told("operation_id: want op_ and 32 hex digits", true)
		}
		env, err := x.g.ex.Status(ctx, x.who.Tenant, x.who.Actor, id)
		if errors.Is(err, pawl.ErrNotFound) {
			return told("There is no such operation.", true)
		}
		if err != nil {
			return x.failed("read operation", err)
		}
		envelopes = append(envelopes, env)
	} else {
		call, wrong := x.intention(&tool{}, nil)
		if wrong != nil {
			return failure(wrong)
		}
		if in.Run != "" {
			call.Run = in.Run
		}
		ops, err := x.g.store.Find(ctx, pawl.Query{Tenant: x.who.Tenant, Run: call.Run, Limit: maxReported})
		if err != nil {
			return x.failed("list operations", err)
		}
		for _, op := range ops {
			env, err := x.g.ex.Status(ctx, x.who.Tenant, x.who.Actor, op.ID)
			if err != nil {
				return x.failed("read operation", err)
			}
			envelopes = append(envelopes, env)
		}
		if len(envelopes) == 0 {
			return told("This run has no operations yet.", false)
		}
	}
	items := make([]json.RawMessage, len(envelopes))
	for i := range envelopes {
		items[i] = text(string(marshal(&envelopes[i])))
	}
	return reply{result: wire.Object{{Name: "content", Value: array(items)}}.JSON()}
}

// told is a result of one text.
func told(what string, isError bool) reply {
	o := wire.Object{{Name: "content", Value: array([]json.RawMessage{text(what)})}}
	if isError {
		o = o.With("isError", json.RawMessage("true"))
	}
	return reply{result: o.JSON()}
}
