//go:build !linux

package main

// parentProcess names no process: where a number alone does, it is used again.
func parentProcess() (string, bool) { return "", false }
