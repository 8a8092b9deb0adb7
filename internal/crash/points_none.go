//go:build !crashpoints

package crash

import "github.com/pawl-dev/pawl"

// Store returns the store.
func Store(s pawl.Store) pawl.Store { return s }

// Port returns the port.
func Port(p pawl.Port) pawl.Port { return p }
