// Package crash kills the daemon at every point around what it writes and sends. In builds
// with the tag crashpoints a daemon passes named points; the environment says at which one
// it dies, as kill -9 would have it, and where it lists those that it passed:
//
//	PAWL_CRASH=send.after#2   die at the second time
//	PAWL_CRASH_LOG=FILE       append the name of each
//
// In every other build the package does nothing. Its tests are the crash matrix.
package crash
