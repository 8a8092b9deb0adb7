package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl"
)

// OperationPath names an operation in a path.
type OperationPath struct {
	TenantQuery
	ID string `path:"id" pattern:"^op_[0-9a-f]{32}$" doc:"The operation's id."`
}

// id reads the path's id, which huma has checked.
func (in *OperationPath) id() (pawl.ID, error) {
	id, err := pawl.ParseID(in.ID)
	if err != nil {
		return id, invalid("path.id", "want op_ and 32 hex digits")
	}
	return id, nil
}

type listInput struct {
	TenantQuery
	Tool   string `query:"tool" doc:"Only this tool."`
	Run    string `query:"run" doc:"Only this run."`
	Status string `query:"status" enum:"PREPARED,PENDING,SUCCEEDED,FAILED_NO_EFFECT,UNKNOWN,COMPENSATED" doc:"Only this status."`
	Ref    string `query:"ref" doc:"Only with this id of the provider's."`
	Key    string `query:"key" pattern:"^[0-9a-f]{32}$" doc:"Only with this key."`
	Open   bool   `query:"open" doc:"Only what is not settled."`
	Review bool   `query:"review" doc:"Only what waits for a person."`
	Before string `query:"before" pattern:"^op_[0-9a-f]{32}$" doc:"Continue after this operation: the next of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Most operations of a page."`
}

// Page is a part of a list, newest first.
type Page struct {
	Operations []Operation `json:"operations" nullable:"false"`
	// Next may come with a page that is short or empty: others' operations are left out.
	Next string `json:"next,omitempty" doc:"What before takes for the next page; absent on the last one."`
}

type findInput struct {
	TenantQuery
	Body Intention
}

type (
	pageOutput    struct{ Body *Page }
	detailOutput  struct{ Body *Detail }
	historyOutput struct {
		Body struct {
			History []pawl.Entry `json:"history" nullable:"false" doc:"One entry for each change, oldest first."`
			Next    int64        `json:"next,omitempty" doc:"What after takes for the next page; absent on the last one."`
		}
	}
	historyInput struct {
		OperationPath
		After int64 `query:"after" minimum:"0" doc:"Continue after the entry with this number: the next of the page before."`
		Limit int   `query:"limit" minimum:"1" maximum:"200" default:"100" doc:"Most entries of a page."`
	}
)

func (d *door) addOperations() {
	register(d, route{who: forRead}, huma.Operation{
		OperationID: "list", Method: http.MethodGet, Path: "/v1/operations", Summary: "List operations, newest first",
	}, d.list)
	register(d, route{who: forRead}, huma.Operation{
		OperationID: "status", Method: http.MethodGet, Path: "/v1/operations/{id}", Summary: "Show an operation",
		Description: "To another actor than its own only the status is shown, unless the contract shares results or the token has the scope settle.",
	}, d.status)
	register(d, route{who: forRead}, huma.Operation{
		OperationID: "find", Method: http.MethodPost, Path: "/v1/operations/find", Summary: "Show the operation of an intention",
		Description: "For a caller that has lost its answer and with it the id. Nothing is sent.",
	}, d.find)
	register(d, route{who: forRead}, huma.Operation{
		OperationID: "history", Method: http.MethodGet, Path: "/v1/operations/{id}/history", Summary: "Show what happened to an operation, with the evidence",
	}, d.history)
}

func (d *door) list(ctx context.Context, in *listInput) (*pageOutput, error) {
	s := sessionOf(ctx)
	q := pawl.Query{
		Tenant: s.Tenant, Tool: in.Tool, Run: in.Run, Status: pawl.Status(in.Status), Ref: in.Ref, Key: in.Key,
		Open: in.Open, Review: in.Review, Limit: in.Limit + 1, // one more tells whether there are more
	}
	if in.Before != "" {
		var err error
		if q.Before, err = pawl.ParseID(in.Before); err != nil {
			return nil, invalid("query.before", "want op_ and 32 hex digits")
		}
	}
	ops, err := d.store.Find(ctx, q)
	if err != nil {
		return nil, d.failed(ctx, "list operations", err)
	}
	page := &Page{Operations: []Operation{}}
	if len(ops) > in.Limit {
		ops = ops[:in.Limit]
		page.Next = ops[len(ops)-1].ID.String()
	}
	for _, op := range ops {
		if s.sees(op) {
			page.Operations = append(page.Operations, summary(op))
		}
	}
	return &pageOutput{page}, nil
}

func (d *door) status(ctx context.Context, in *OperationPath) (*detailOutput, error) {
	op, err := d.get(ctx, in)
	if err != nil {
		return nil, err
	}
	return d.show(ctx, op)
}

func (d *door) find(ctx context.Context, in *findInput) (*detailOutput, error) {
	op, err := d.ex.Lookup(ctx, in.Body.call(sessionOf(ctx)))
	if err != nil {
		return nil, d.failed(ctx, "find operation", err)
	}
	return d.show(ctx, op)
}

func (d *door) show(ctx context.Context, op *pawl.Operation) (*detailOutput, error) {
	v, err := d.detail(ctx, sessionOf(ctx), op)
	if err != nil {
		return nil, err
	}
	return &detailOutput{v}, nil
}

func (d *door) history(ctx context.Context, in *historyInput) (*historyOutput, error) {
	op, err := d.get(ctx, &in.OperationPath)
	if err != nil {
		return nil, err
	}
	if !sessionOf(ctx).sees(op) {
		return nil, problem(http.StatusForbidden, CodeOtherActor, "the history is for the operation's own actor and for tokens with the scope settle")
	}
	all, err := d.store.History(ctx, op.Tenant, op.ID)
	if err != nil {
		return nil, d.failed(ctx, "read history", on(&op.Intent, err))
	}
	var out historyOutput
	out.Body.History = all[min(in.After, int64(len(all))):] // entries are numbered from 1 without a gap
	if len(out.Body.History) > in.Limit {
		out.Body.History = out.Body.History[:in.Limit]
		out.Body.Next = in.After + int64(in.Limit)
	}
	return &out, nil
}

// get reads an operation of the session's tenant.
func (d *door) get(ctx context.Context, in *OperationPath) (*pawl.Operation, error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	op, err := d.store.Get(ctx, sessionOf(ctx).Tenant, id)
	if err != nil {
		return nil, d.failed(ctx, "read operation", on(&pawl.Intent{ID: id}, err))
	}
	return op, nil
}

// failed is the problem for an error below the door. What is no answer of the rules goes
// into the log, with what it is about, and not to the caller.
func (d *door) failed(ctx context.Context, what string, err error) error {
	var call *pawl.CallError
	var refused *pawl.Refusal
	switch {
	case errors.Is(err, pawl.ErrNotFound):
		return problem(http.StatusNotFound, CodeNotFound, "there is no such operation")
	case errors.As(err, &call):
		return problem(http.StatusUnprocessableEntity, Code(call.Reason), "the call names no operation: %s", call.Error())
	case errors.As(err, &refused):
		return problem(http.StatusConflict, Code(refused.Why), "%s", refused.Error())
	}
	if ctx.Err() != nil {
		return problem(http.StatusServiceUnavailable, CodeUnavailable, "the request was given up")
	}
	d.opts.Log.LogAttrs(ctx, slog.LevelError, "request failed", slog.String("what", what), slog.Any("error", err), about(err))
	return problem(http.StatusServiceUnavailable, CodeUnavailable, "the store could not be read or written")
}

// on says which operation an error is about, unless it says so itself.
func on(in *pawl.Intent, err error) error {
	var record *pawl.RecordError
	if errors.As(err, &record) {
		return err
	}
	return &pawl.RecordError{Intent: in, Err: err}
}

// about are the attributes of the operation that an error is about, if it says so.
func about(err error) slog.Attr {
	var record *pawl.RecordError
	if !errors.As(err, &record) {
		return slog.Attr{}
	}
	return slog.Any("", record.Intent)
}
