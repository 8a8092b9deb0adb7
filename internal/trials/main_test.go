package trials

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite the expected output of the scripts, and docs/trials.md")

func TestMain(m *testing.M) {
	if text := os.Getenv(jobEnv); text != "" {
		os.Exit(work(text))
	}
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			panic(err) // the flag is testing's own
		}
	}
	goleak.VerifyTestMain(m)
}
