// Package workers plays several workers on one PostgreSQL store: processes of their own
// that are stopped, killed and drained, and servers that fail over beneath them. What
// happened is counted by a provider that none of this touches.
package workers
