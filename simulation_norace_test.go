//go:build !race

package pawl_test

// How many schedules the simulation plays by default.
const (
	schedules         = 2000
	schedulesOnSQLite = 50
)
