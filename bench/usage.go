package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage is what processes have used of the machine so far.
type usage struct {
	cpu     time.Duration
	written int64         // bytes, as they reach the disk's queue
	flushes int64         // of the disk that holds the folder, by anybody
	busy    time.Duration // of all processors, by anybody
}

func (u usage) since(earlier usage) usage {
	return usage{u.cpu - earlier.cpu, u.written - earlier.written, u.flushes - earlier.flushes, u.busy - earlier.busy}
}

// usageOf reads what this process and its team have used.
func usageOf(t team, dir string) usage {
	u := usage{flushes: flushesOf(dir), busy: busy()}
	for _, pid := range append(t.daemons, os.Getpid()) {
		u.add(pid)
	}
	if t.database > 0 {
		for _, pid := range family(t.database) {
			u.add(pid)
		}
		// Of sessions that have ended the server's process has the time, as it has their writes.
		if f := statOf(t.database); len(f) > 14 {
			u.cpu += time.Duration(number(f[13])+number(f[14])) * time.Second / ticks
		}
	}
	return u
}

func (u *usage) add(pid int) {
	if pid == os.Getpid() {
		var r syscall.Rusage // finer than /proc
		if syscall.Getrusage(syscall.RUSAGE_SELF, &r) == nil {
			u.cpu += time.Duration(r.Utime.Nano() + r.Stime.Nano())
		}
	} else if f := statOf(pid); len(f) > 12 {
		u.cpu += time.Duration(number(f[11])+number(f[12])) * time.Second / ticks
	}
	u.written += field(fmt.Sprintf("/proc/%d/io", pid), "write_bytes:")
}

// childrenCPU is the processor time of the children that have ended.
func childrenCPU() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// ticks is the unit of processor time in /proc.
const ticks = 100

// busy is the time that the processors have worked for anybody.
func busy() time.Duration {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(b), "\n")
	var sum int64
	for i, f := range strings.Fields(line) {
		if i > 0 && i < 9 && i != 4 && i != 5 { // neither idle nor waiting for a disk; guests are in user
			sum += number(f)
		}
	}
	return time.Duration(sum) * time.Second / ticks
}

// statOf is /proc/PID/stat behind the name, beginning with the state.
func statOf(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
}

// family is a process and all that descend from it.
func family(root int) []int {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	children := make(map[int][]int)
	for _, f := range folders {
		pid, _ := strconv.Atoi(filepath.Base(f))
		if s := statOf(pid); len(s) > 1 {
			parent := int(number(s[1]))
			children[parent] = append(children[parent], pid)
		}
	}
	all := []int{root}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// peakMemory is the most memory that the contestant's own processes have held: the
// daemons where there are some, this process elsewhere. A database server is not in it.
func peakMemory(t team) int64 {
	pids := t.daemons
	if len(pids) == 0 {
		pids = []int{os.Getpid()}
	}
	var sum int64
	for _, pid := range pids {
		sum += field(fmt.Sprintf("/proc/%d/status", pid), "VmHWM:") << 10
	}
	return sum
}

// field is the number behind a name in one of /proc's files, 0 if there is none.
func field(path, name string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			return number(f[1])
		}
	}
	return 0
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// flushesOf counts the flushes of the disk that holds a folder; 0 where that is not known.
func flushesOf(dir string) int64 {
	var st syscall.Stat_t
	if syscall.Stat(dir, &st) != nil {
		return 0
	}
	major := st.Dev>>8&0xfff | st.Dev>>32&^0xfff
	minor := st.Dev&0xff | st.Dev>>12&^0xff
	device, err := filepath.EvalSymlinks(fmt.Sprintf("/sys/dev/block/%d:%d", major, minor))
	if err != nil {
		return 0
	}
	if _, err := os.Stat(filepath.Join(device, "partition")); err == nil {
		device = filepath.Dir(device)
	}
	b, err := os.ReadFile(filepath.Join(device, "stat"))
	if err != nil {
		return 0
	}
	if f := strings.Fields(string(b)); len(f) > 15 {
		return number(f[15])
	}
	return 0
}

// inMemory reports whether a folder's files never reach a disk, so that a sync is free.
func inMemory(dir string) bool {
	const tmpfs, ramfs = 0x01021994, 0x858458f6
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && (int64(st.Type) == tmpfs || int64(st.Type) == ramfs)
}
