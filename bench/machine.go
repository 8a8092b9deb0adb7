package main

import (
	"bufio"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// machine is where a run took place.
type machine struct {
	When      time.Time `json:"when"`
	Cores     int       `json:"cores"`
	Processor string    `json:"processor"`
	Kernel    string    `json:"kernel"`
	Go        string    `json:"go"`
	// Versions are those of the modules that are measured.
	Versions map[string]string `json:"versions"`
}

func describe() machine {
	m := machine{When: time.Now().UTC().Truncate(time.Second), Cores: runtime.NumCPU(), Go: runtime.Version(), Versions: make(map[string]string)}
	var u syscall.Utsname
	if syscall.Uname(&u) == nil {
		var text strings.Builder
		for _, c := range u.Release {
			if c == 0 {
				break
			}
			text.WriteByte(byte(c))
		}
		m.Kernel = text.String()
	}
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if name, value, _ := strings.Cut(s.Text(), ":"); strings.TrimSpace(name) == "model name" {
				m.Processor = strings.TrimSpace(value)
				break
			}
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			m.Versions[d.Path] = d.Version
		}
	}
	return m
}
