package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
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
	// Versions are those of what is measured.
	Versions map[string]string `json:"versions"`
}

// measured are the modules whose versions matter, by the names that people know them by.
var measured = map[string]string{
	"github.com/ncruces/go-sqlite3":            "ncruces/go-sqlite3",
	"github.com/jackc/pgx/v5":                  "pgx",
	"github.com/dbos-inc/dbos-transact-golang": "DBOS Transact",
	"github.com/riverqueue/river":              "River",
}

// String is the machine in one line, without a full stop.
func (m machine) String() string {
	s := fmt.Sprintf("%s, %d cores, %s, Linux %s, %s", m.When.Format(time.DateOnly), m.Cores, m.Processor, m.Kernel, m.Go)
	for _, name := range slices.Sorted(maps.Keys(m.Versions)) {
		s += fmt.Sprintf(", %s %s", name, strings.TrimPrefix(m.Versions[name], "v"))
	}
	return s
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
			if name := measured[d.Path]; name != "" {
				m.Versions[name] = d.Version
			}
		}
	}
	return m
}
