//go:build mutants

package pawl

import "os"

// off is the rule that does not hold.
var off = protocolRule(os.Getenv("PAWL_MUTANT"))

func holds(r protocolRule) bool { return r != off }

// asStored derives again what must be as it was stored, where that rule does not hold.
func (f *flight) asStored(op *Operation) *Operation {
	if holds(bytesAreStored) && holds(keyIsStored) {
		return op
	}
	again := *op
	inv, err := invocationOf(op, f.deadline)
	if err != nil {
		return op
	}
	if !holds(keyIsStored) {
		blob := Blob{ID: inv.Identity, Tool: op.Tool, Tenant: op.Tenant, Run: op.Run, Step: op.Step, Gen: op.Gen}
		switch op.Scope {
		case ScopeBusiness:
			blob.Run, blob.Step = "", ""
		case ScopeParentRun:
			blob.Run, blob.Step = op.ParentRun, ""
		case ScopeRun:
			blob.Step = ""
		}
		b, err := blob.Bytes()
		if err != nil {
			return op
		}
		again.Key = DeriveKey(f.e.secret(op.Tenant), b)
		inv.Key = again.Key
	}
	out, err := safePrepare(f.tool.Port, inv)
	if err != nil {
		return op
	}
	again.Request = out.Request
	return &again
}
