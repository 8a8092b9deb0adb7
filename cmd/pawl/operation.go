package main

import (
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl"
)

// operation is an OPERATION of the JSON shapes. What an operation does not have is left
// out.
type operation struct {
	ID           string         `json:"id"`
	Tool         string         `json:"tool"`
	Status       pawl.Status    `json:"status"`
	Reason       pawl.Reason    `json:"reason,omitempty"`
	Effect       string         `json:"effect"`
	Version      int64          `json:"version"`
	Tenant       string         `json:"tenant,omitempty"`
	Actor        string         `json:"actor,omitempty"`
	Run          string         `json:"run,omitempty"`
	ParentRun    string         `json:"parent_run,omitempty"`
	Step         string         `json:"step,omitempty"`
	Scope        pawl.Scope     `json:"scope"`
	Generation   int            `json:"generation"`
	Key          string         `json:"key"`
	Attempts     int            `json:"attempts"`
	SettledBy    pawl.SettledBy `json:"settled_by,omitempty"`
	Ref          string         `json:"ref,omitempty"`
	Review       time.Time      `json:"review,omitzero"`
	ReviewReason pawl.Reason    `json:"review_reason,omitempty"`
	Created      time.Time      `json:"created"`
	Updated      time.Time      `json:"updated"`
	// Due is when it moves next by itself.
	Due time.Time `json:"due,omitzero"`
}

func summary(op *pawl.Operation) operation {
	return operation{
		ID: op.ID.String(), Tool: op.Tool, Status: op.Status, Reason: op.Reason, Effect: op.Effect, Version: op.Version,
		Tenant: op.Tenant, Actor: op.Actor, Run: op.Run, ParentRun: op.ParentRun, Step: op.Step, Scope: op.Scope, Generation: op.Gen,
		Key: op.Key.String(), Attempts: len(op.Attempts), SettledBy: op.SettledBy, Ref: op.Ref,
		Review: op.Review.UTC(), ReviewReason: op.ReviewReason, Created: op.Created.UTC(), Updated: op.Updated.UTC(), Due: op.Due.UTC(),
	}
}

// shown is what `pawl ops show --json` writes.
type shown struct {
	Operation operation      `json:"operation"`
	Envelope  *pawl.Envelope `json:"envelope"`
	// SafeAt is the time after which no request of ours can land or be invisible any more.
	SafeAt     time.Time         `json:"safe_at"`
	Args       json.RawMessage   `json:"args"`
	Identity   json.RawMessage   `json:"identity"`
	Request    string            `json:"request"`
	Before     json.RawMessage   `json:"before,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Contract   string            `json:"contract_hash"`
	Attempts   []pawl.Attempt    `json:"attempts"`
	// History has an ENTRY for each change, as pawl.Entry writes it: {seq, at, event, by,
	// from, to, reason, attempt, evidence, probe, fence, decision, note}.
	History []pawl.Entry `json:"history"`
}

func detail(op *pawl.Operation, history []pawl.Entry) *shown {
	return &shown{
		Operation: summary(op), Envelope: pawl.Report(op, time.Now()), SafeAt: op.SafeAt().UTC(), Args: op.Args, Identity: op.Identity,
		Request: string(op.Request), Before: op.Before, Attributes: op.Attributes, Contract: op.ContractHash,
		Attempts: op.Attempts, History: history,
	}
}
