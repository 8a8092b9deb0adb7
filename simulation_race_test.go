//go:build race

package pawl_test

// schedules is how many schedules TestSimulation plays by default: fewer, since the race
// detector makes each an order of magnitude slower.
const schedules = 300
