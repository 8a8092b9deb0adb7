// Package clients reads and rewrites the configuration files in which MCP clients list
// their servers: JSON with comments for Claude Desktop, Claude Code, Cursor and VS Code,
// TOML for Codex.
//
// A file is changed by edits of its text. Comments, unknown keys, the order of keys, line
// ends and everything else that an edit does not touch stay byte for byte. What cannot be
// read whole is an *InputError with file, line and column, and is not changed at all.
//
// No value of a variable, header or secret argument is ever part of an error or of what a
// person is shown.
package clients
