//go:build !race

package trials

// atOnce is how many scripts run at a time unless -parallel says otherwise: they wait more
// than they work.
const atOnce = "12"

// twoStores: what turns on the store is played on PostgreSQL too.
const twoStores = true
