//go:build race

package pawl_test

// How many schedules the simulation plays by default: fewer, since the race detector makes
// each an order of magnitude slower.
const (
	schedules         = 300
	schedulesOnSQLite = 20
)
