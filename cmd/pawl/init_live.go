package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/contract/draft"
	"github.com/pawl-dev/pawl/gateway/upstream"
)

// listedBy asks a server for its tools: it is started or connected, and nothing else of it
// is called. What it says on the way is shown only if it fails.
func listedBy(ctx context.Context, s draft.Server, talk io.Writer) (tools []draft.Tool, err error) {
	var said bytes.Buffer
	defer func() {
		if err != nil {
			terminal.New(talk).Printf("%s", terminal.EscapeLines(said.String()))
		}
	}()
	text, err := draft.Upstreams([]draft.Server{s}, "the command line")
	if err != nil {
		return nil, usage("--name: %w", err)
	}
	file, err := contract.Parse("command line", text, nil)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	set, err := upstream.Open(file.MCPServers(), &upstream.Options{Log: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		return nil, err
	}
	listed, err := set.Get(s.Name).Tools(ctx, nil)
	set.Close() // nobody writes to said any more
	if err != nil {
		return nil, fmt.Errorf("list the tools of %s: %w", s.Name, err)
	}
	var list bytes.Buffer
	list.WriteByte('[')
	for i, t := range listed {
		if i > 0 {
			list.WriteByte(',')
		}
		list.Write(t.Raw)
	}
	list.WriteByte(']')
	return draft.ReadTools("tools of "+s.Name, list.Bytes())
}
