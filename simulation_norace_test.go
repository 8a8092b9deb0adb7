//go:build !race

package pawl_test

// schedules is how many schedules TestSimulation plays by default.
const schedules = 2000
