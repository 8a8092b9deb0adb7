package wire

import "slices"

// The published revisions of the protocol, oldest first.
const (
	Version20241105 = "2024-11-05"
	Version20250326 = "2025-03-26"
	Version20250618 = "2025-06-18"
	Version20251125 = "2025-11-25"
	Version20260728 = "2026-07-28"
)

// Versions are the revisions that are spoken, newest first.
var Versions = []string{Version20260728, Version20251125, Version20250618, Version20250326, Version20241105}

// LatestLegacy is the newest revision that begins with a handshake.
const LatestLegacy = Version20251125

// Era is the way in which a session comes about: by a handshake, or not at all.
type Era int

const (
	// Legacy revisions begin with initialize and keep a session.
	Legacy Era = iota
	// Modern revisions have no session: every request says what it needs in its _meta.
	Modern
)

func (e Era) String() string {
	if e == Modern {
		return "modern"
	}
	return "legacy"
}

// EraOf is the era of a revision. Revisions are dates, so that one newer than those known
// here is modern.
func EraOf(version string) Era {
	if version >= Version20260728 {
		return Modern
	}
	return Legacy
}

// Spoken reports whether a revision is one of Versions.
func Spoken(version string) bool { return slices.Contains(Versions, version) }

// Methods of requests.
const (
	MethodInitialize      = "initialize"
	MethodDiscover        = "server/discover"
	MethodPing            = "ping"
	MethodListTools       = "tools/list"
	MethodCallTool        = "tools/call"
	MethodListPrompts     = "prompts/list"
	MethodGetPrompt       = "prompts/get"
	MethodListResources   = "resources/list"
	MethodListTemplates   = "resources/templates/list"
	MethodReadResource    = "resources/read"
	MethodSubscribe       = "resources/subscribe"
	MethodUnsubscribe     = "resources/unsubscribe"
	MethodComplete        = "completion/complete"
	MethodSetLevel        = "logging/setLevel"
	MethodListen          = "subscriptions/listen"
	MethodElicit          = "elicitation/create"
	MethodSample          = "sampling/createMessage"
	MethodListRoots       = "roots/list"
	MethodGetTask         = "tasks/get"
	MethodUpdateTask      = "tasks/update"
	MethodCancelTask      = "tasks/cancel"
	NotifyInitialized     = "notifications/initialized"
	NotifyCancelled       = "notifications/cancelled"
	NotifyProgress        = "notifications/progress"
	NotifyMessage         = "notifications/message"
	NotifyToolsChanged    = "notifications/tools/list_changed"
	NotifyPromptsChanged  = "notifications/prompts/list_changed"
	NotifyResourceChanged = "notifications/resources/list_changed"
	NotifyResourceUpdated = "notifications/resources/updated"
	NotifyRootsChanged    = "notifications/roots/list_changed"
	NotifyElicited        = "notifications/elicitation/complete"
	NotifyAcknowledged    = "notifications/subscriptions/acknowledged"
)

// Keys of _meta.
const (
	MetaVersion       = "io.modelcontextprotocol/protocolVersion"
	MetaCapabilities  = "io.modelcontextprotocol/clientCapabilities"
	MetaClientInfo    = "io.modelcontextprotocol/clientInfo"
	MetaServerInfo    = "io.modelcontextprotocol/serverInfo"
	MetaLogLevel      = "io.modelcontextprotocol/logLevel"
	MetaSubscription  = "io.modelcontextprotocol/subscriptionId"
	MetaProgressToken = "progressToken"
	// MetaReserved is the prefix of the keys that belong to the protocol.
	MetaReserved = "io.modelcontextprotocol/"
	// ExtensionTasks names the tasks extension in capabilities.
	ExtensionTasks = "io.modelcontextprotocol/tasks"
)

// Headers of the HTTP transport.
const (
	HeaderVersion     = "Mcp-Protocol-Version"
	HeaderSession     = "Mcp-Session-Id"
	HeaderMethod      = "Mcp-Method"
	HeaderName        = "Mcp-Name"
	HeaderParamPrefix = "Mcp-Param-"
	HeaderLastEvent   = "Last-Event-ID"
)

// Codes of errors: those of JSON-RPC, and those that the modern revisions define.
const (
	CodeParse              = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
)

// The types of a result; a modern result without one is not understood.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
)
