package main

import (
	"bytes"
	"fmt"
	"os"
)

// parentProcess names the process that has started this one, and no other for as long as
// this system runs and after.
func parentProcess() (string, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", os.Getppid()))
	if err != nil {
		return "", false
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", false
	}
	// The name in brackets may hold anything; the 20th field after it is the start time.
	_, rest, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 20 {
		return "", false
	}
	return fmt.Sprintf("%s/%d/%s", bytes.TrimSpace(boot), os.Getppid(), fields[19]), true
}
