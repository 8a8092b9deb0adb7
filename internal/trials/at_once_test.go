//go:build !race

package trials

// atOnce is how many scripts run at a time unless -parallel says otherwise: they wait more
// than they work.
const atOnce = "12"
