package storetest

import (
	"bytes"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl"
)

// clone copies an operation so that nothing but the pinned contract is shared.
func clone(op *pawl.Operation) *pawl.Operation {
	c := *op
	c.Identity, c.Args, c.Request = bytes.Clone(op.Identity), bytes.Clone(op.Args), bytes.Clone(op.Request)
	c.Attributes = maps.Clone(op.Attributes)
	c.Attempts = slices.Clone(op.Attempts)
	c.Before, c.Result, c.Chain = bytes.Clone(op.Before), bytes.Clone(op.Result), bytes.Clone(op.Chain)
	if op.Approval != nil {
		a := *op.Approval
		a.LookAlikes, a.Yes = slices.Clone(a.LookAlikes), slices.Clone(a.Yes)
		c.Approval = &a
	}
	return &c
}
