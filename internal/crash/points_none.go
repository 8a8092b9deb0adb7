//go:build !crashpoints

package crash

import "github.com/pawl-dev/pawl"

// WALSize is the store's own default.
const WALSize = 0

// Store returns the store.
func Store(s pawl.Store) pawl.Store { return s }

// Port returns the port.
func Port(p pawl.Port) pawl.Port { return p }
