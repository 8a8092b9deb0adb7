//go:build unix

package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTutorial runs the commands of docs/tutorial.md in one shell, as a reader does, and
// compares what each block shows with the page.
func TestTutorial(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	page, err := os.ReadFile("../../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```(sh|text)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	const end = "== end of block =="
	var script strings.Builder
	script.WriteString("set -m\ntrap 'kill $(jobs -p) 2>/dev/null' EXIT\n") // jobs have numbers, as in a terminal
	var want []string
	for _, b := range blocks {
		if b[1] == "sh" {
			script.WriteString(b[2] + "echo\necho '" + end + "'\n")
			want = append(want, "")
			continue
		}
		want[len(want)-1] = b[2]
	}
	script.WriteString("wait\n")
	if len(want) < 6 {
		t.Fatalf("found %d blocks", len(want))
	}
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "pawl"), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	text := strings.NewReplacer(":4110", ":"+freePort(t), ":7295", ":"+freePort(t)).Replace(script.String())
	text = strings.Replace(text, "pawl demo --contract > pawl.yaml", "pawl demo --contract | sed s/:4110/:"+portIn(text)+"/ > pawl.yaml", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", text)
	shell.Dir = dir
	shell.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	shell.Cancel = func() error { return shell.Process.Signal(syscall.SIGTERM) } // so that its trap runs
	shell.WaitDelay = 10 * time.Second
	var out, errs bytes.Buffer
	shell.Stdout, shell.Stderr = &out, &errs
	err = shell.Run()
	shown := strings.Split(out.String(), end+"\n")
	for i, w := range want {
		if i >= len(shown)-1 {
			break
		}
		if got := strings.TrimSpace(shown[i]); !pattern(w).MatchString(got) {
			t.Errorf("block %d: got\n%s\nwant\n%s", i+1, got, w)
		}
	}
	if err != nil || len(shown) != len(want)+1 {
		t.Errorf("the shell ended with %v after %d of %d blocks: %s", err, len(shown)-1, len(want), errs.String())
	}
	if t.Failed() {
		for _, name := range []string{"sandbox.log", "serve.log"} {
			log, _ := os.ReadFile(filepath.Join(dir, name))
			t.Logf("%s:\n%s", name, log)
		}
	}
}

// pattern is what a block must show: "…" stands for anything, and blanks are all alike.
func pattern(want string) *regexp.Regexp {
	parts := strings.Split(strings.TrimSpace(want), "…")
	for i, p := range parts {
		parts[i] = regexp.MustCompile(`\s+`).ReplaceAllString(regexp.QuoteMeta(p), `\s+`)
	}
	return regexp.MustCompile(`(?s)^` + strings.Join(parts, ".*") + `$`)
}

// portIn finds the port that took the place of the sandbox's.
func portIn(text string) string {
	return regexp.MustCompile(`sandbox --listen 127\.0\.0\.1:(\d+)`).FindStringSubmatch(text)[1]
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}
