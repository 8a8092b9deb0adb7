//go:build !mutants

package pawl

func holds(protocolRule) bool { return true }

// asStored is the operation as it is sent: under the key and with the bytes of its intent,
// which are never derived again.
func (f *flight) asStored(op *Operation) *Operation { return op }
