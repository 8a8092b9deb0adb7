package contract

import (
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
