//go:build !race

package contract_test

// raced: the race detector makes everything many times slower.
const raced = false
