// Package pawl makes tool calls with side effects safe for AI agents.
package pawl
