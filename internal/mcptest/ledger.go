package mcptest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Call is one tools/call that reached an upstream, in the order of arrival.
type Call struct {
	Tool string         `json:"tool"`
	Args map[string]any `json:"args"`
}

// Effect is one change that an upstream made.
type Effect struct {
	ID   string         `json:"id"`
	Tool string         `json:"tool"`
	Args map[string]any `json:"args"`
}

// A folder is where an upstream keeps its ledger and finds what is to go wrong. It outlives
// the upstream's processes.
type folder string

const (
	effectsFile = "effects.jsonl"
	callsFile   = "calls.jsonl"
	faultFile   = "fault"
	takenFile   = "fault.taken"
	releaseFile = "release"
)

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

// add appends one line, durably and whole: an upstream may be killed at any time.
func (f folder) add(name string, value any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(f.path(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

func lines[T any](f folder, name string) ([]T, error) {
	data, err := os.ReadFile(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []T
	for line := range bytes.Lines(data) {
		var value T
		if err := json.Unmarshal(line, &value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, value)
	}
	return list, err
}

// takeFault takes the fault that waits, at most once whoever asks.
func (f folder) takeFault() Fault {
	if os.Rename(f.path(faultFile), f.path(takenFile)) != nil {
		return ""
	}
	text, err := os.ReadFile(f.path(takenFile))
	if err != nil {
		return ""
	}
	return Fault(text)
}

// setFault writes the fault whole before anybody may take it.
func (f folder) setFault(fault Fault) error {
	written := f.path(faultFile) + ".new"
	if err := os.WriteFile(written, []byte(fault), 0o600); err != nil {
		return err
	}
	return os.Rename(written, f.path(faultFile))
}

// awaitRelease holds an upstream until its test lets it go on, or for a minute.
func (f folder) awaitRelease() {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(f.path(releaseFile)); err == nil {
			return
		}
	}
}

// Effects returns what the upstream did.
func (u *Upstream) Effects(t testing.TB) []Effect {
	t.Helper()
	effects, err := lines[Effect](u.folder, effectsFile)
	if err != nil {
		t.Fatal(err)
	}
	return effects
}

// Calls returns what was asked of the upstream by one tool, or by all if the name is empty.
func (u *Upstream) Calls(t testing.TB, tool string) []Call { return calls(t, u.folder, tool) }

func calls(t testing.TB, f folder, tool string) []Call {
	t.Helper()
	all, err := lines[Call](f, callsFile)
	if err != nil {
		t.Fatal(err)
	}
	var some []Call
	for _, c := range all {
		if tool == "" || c.Tool == tool {
			some = append(some, c)
		}
	}
	return some
}

// Fail lets the next call of an effect go wrong. A Late one is held until Release.
func (u *Upstream) Fail(t testing.TB, fault Fault) {
	t.Helper()
	for _, name := range []string{releaseFile, takenFile} {
		if err := os.Remove(u.folder.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := u.folder.setFault(fault); err != nil {
		t.Fatal(err)
	}
}

// Failed tells whether the fault was met.
func (u *Upstream) Failed(t testing.TB) bool {
	t.Helper()
	_, waiting := os.Stat(u.folder.path(faultFile))
	_, taken := os.Stat(u.folder.path(takenFile))
	return errors.Is(waiting, fs.ErrNotExist) && taken == nil
}

// Release lets calls that are held go on, now and later.
func (u *Upstream) Release(t testing.TB) { release(t, u.folder) }

func release(t testing.TB, f folder) {
	t.Helper()
	if err := os.WriteFile(f.path(releaseFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// await waits until a file is there.
func await(t testing.TB, f folder, name string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(f.path(name)); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("in vain waited for %s", name)
		}
	}
}
