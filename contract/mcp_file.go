package contract

import (
	"net/http"

	"github.com/pawl-dev/pawl"
)

// MCPServers are the upstreams of the file that speak MCP, in the order of their names.
func (f *File) MCPServers() []*MCPServer { return nil }

// MCPTools are the declared tools of one of them, in the order of the file.
func (f *File) MCPTools(server string) []MCPTool { return nil }

// UseMCP sets what speaks to the MCP servers. It comes before Tools.
func (f *File) UseMCP(c MCPClient) {}

// Undeclared is a tool of an MCP server that the file does not declare: unsafe, with every
// argument in its identity. The error is ErrUndeclared where the server's terms refuse such
// tools.
func (f *File) Undeclared(server, name string) (*pawl.Tool, error) { return nil, ErrUndeclared }

// Environment is what a child gets: variables that programs need to run, and those that
// the file names. The values of credentials are listed as well.
func (s *MCPServer) Environment() (env, secrets []string, err error) { return nil, nil, nil }

// Header are the headers of every request over HTTP, with today's credentials, whose
// values are listed as well.
func (s *MCPServer) Header() (header http.Header, secrets []string, err error) {
	return http.Header{}, nil, nil
}
