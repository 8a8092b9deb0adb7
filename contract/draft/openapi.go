package draft

// Operation is how a tool is reached over HTTP.
type Operation struct {
	Method string
	Path   string
}
