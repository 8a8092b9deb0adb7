package contract

// The types of this file are the shape of pawl.yaml: json tags are its keys, a key
// without omitempty is required, jsonschema tags are what an editor shows for it. The
// decoder and the published schema are both made from them.

type document struct {
	Version   int                      `json:"version" jsonschema:"The version of this format: 1."`
	Store     string                   `json:"store,omitempty" jsonschema:"Path of the SQLite file or URL of the database in which operations are kept."`
	KeySecret *keySecretTerms          `json:"key_secret,omitempty" jsonschema:"The secret that idempotency keys are made with, by reference, such as ${env:PAWL_KEY_SECRET}. Without one a key of a low-entropy identity can be guessed."`
	Notify    *notifyTerms             `json:"notify,omitempty" jsonschema:"How an operator is told of operations that wait for a person."`
	Upstreams map[string]upstreamTerms `json:"upstreams,omitempty" jsonschema:"The services that tools call, by name."`
	Tools     map[string]toolTerms     `json:"tools,omitempty" jsonschema:"What is declared about each tool, by the name callers use."`
}

type upstreamTerms struct {
	Use            string              `json:"use,omitempty" jsonschema:"A provider whose preset holds where this upstream says nothing else, such as stripe."`
	URL            string              `json:"url,omitempty" jsonschema:"Base URL. Tools add paths to it and can reach no other host. A preset may have one."`
	Conventions    conventions         `json:"conventions,omitempty" jsonschema:"http accepts a status code such as 400 or 429 as proof that nothing happened, mcp the codes of JSON-RPC for what was never called; none (the default) does not."`
	ErrorShape     expression          `json:"error_shape,omitempty" jsonschema:"CEL over response: true if an error answer has this upstream's own shape, and not that of a proxy in between."`
	Headers        map[string]template `json:"headers,omitempty" jsonschema:"Headers of every request. Credentials only as ${env:NAME} or ${file:/path}."`
	AWS            *awsTerms           `json:"aws,omitempty" jsonschema:"Signs every request for an AWS service."`
	TLS            *tlsTerms           `json:"tls,omitempty" jsonschema:"Certificates."`
	Proxy          string              `json:"proxy,omitempty" jsonschema:"URL of an HTTP proxy. Proxies of the environment are not used."`
	ConnectTimeout duration            `json:"connect_timeout,omitempty" jsonschema:"Longest wait for a connection."`
	Network        network             `json:"network,omitempty" jsonschema:"public refuses to connect to loopback, private and other special addresses, whatever DNS says; any is the default."`
	MaxResponse    int                 `json:"max_response,omitempty" jsonschema:"Largest answer in bytes that is read."`
	MCP            *mcpTerms           `json:"mcp,omitempty" jsonschema:"The upstream speaks the Model Context Protocol: over HTTP at url, or as a child that command starts."`
}

type mcpTerms struct {
	Command       stringList          `json:"command,omitempty" jsonschema:"Program and arguments of a server that speaks on its standard input and output."`
	Dir           string              `json:"dir,omitempty" jsonschema:"The folder that it is started in."`
	Env           map[string]template `json:"env,omitempty" jsonschema:"Its environment, beside PATH, HOME and the like. Credentials only as ${env:NAME} or ${file:/path}."`
	InheritEnv    bool                `json:"inherit_env,omitempty" jsonschema:"It gets the whole environment of pawl, with every credential in it."`
	Era           era                 `json:"era,omitempty" jsonschema:"auto (the default) finds out which revisions it speaks; legacy or modern speaks these alone."`
	ReadOnlyHints readOnlyHints       `json:"read_only_hints,omitempty" jsonschema:"trusted takes the server's word that a tool only reads; ignored (the default) does not."`
	Undeclared    undeclared          `json:"undeclared,omitempty" jsonschema:"What becomes of tools that this file does not declare: unsafe (the default: sent once, doubt goes to a person) or refuse."`
	EmptySuccess  emptySuccess        `json:"empty_success,omitempty" jsonschema:"What a result without any content means: doubt (the default) or success."`
	StartTimeout  duration            `json:"start_timeout,omitempty" jsonschema:"Longest wait for a session: the start of the server and the handshake; default 30s."`
}

type tlsTerms struct {
	CAFile     string `json:"ca_file,omitempty" jsonschema:"PEM file of the certificate authorities to trust instead of the system's."`
	CertFile   string `json:"cert_file,omitempty" jsonschema:"PEM file of the client certificate."`
	KeyFile    string `json:"key_file,omitempty" jsonschema:"PEM file of the client certificate's key."`
	ServerName string `json:"server_name,omitempty" jsonschema:"Name expected in the server's certificate instead of the URL's host."`
}

type toolTerms struct {
	Upstream string       `json:"upstream" jsonschema:"The upstream that the tool calls."`
	Class    class        `json:"class,omitempty" jsonschema:"What a second arrival of the same request does: read (no effect), keyed (the provider honours our key), convergent (same state), unsafe (the default)."`
	Draft    bool         `json:"draft,omitempty" jsonschema:"The terms are a guess of pawl init that nobody has confirmed. Lint warns of it."`
	Use      string       `json:"use,omitempty" jsonschema:"A preset whose terms hold where this tool says nothing else, such as stripe/v1/refunds.create. null removes one of its terms."`
	Request  requestTerms `json:"request,omitempty" jsonschema:"The request that has the effect. A preset has one."`
	Call     *callTerms   `json:"call,omitempty" jsonschema:"The call that has the effect, for an upstream that speaks MCP. Default: the tool of the same name behind UPSTREAM/, with the arguments as they are."`
	When     whenTerms    `json:"when,omitempty" jsonschema:"Contracts for what the tool does, by name, each with the condition under which it holds. Where none or several hold the tool's own terms do, and it is unsafe."`
	Unwrap   *unwrapTerms `json:"unwrap,omitempty" jsonschema:"The tool calls another one that its arguments name: contracts for those inner tools. Where none fits the tool's own terms hold, and it is unsafe."`
	Claims   []claimTerms `json:"claims,omitempty" jsonschema:"Where the claims of this contract come from and when they were last checked."`

	Effect       string `json:"effect,omitempty" jsonschema:"The effect in words, such as: refund of {amount} {currency} on order {order_id}."`
	Irreversible bool   `json:"irreversible,omitempty" jsonschema:"No compensation exists."`

	Compensation *compensationTerms `json:"compensation,omitempty" jsonschema:"How the effect is undone when its run is called off."`
	Corrective   string             `json:"corrective,omitempty" jsonschema:"What people can do about an effect that cannot be undone, such as: send a correction e-mail."`

	Identity       *identityTerms `json:"identity,omitempty" jsonschema:"The fields that make two calls the same intention: a list or a mapping of fields, none (the scope alone), or all (every argument)."`
	Free           []string       `json:"free,omitempty" jsonschema:"Arguments that may differ between repeats. Every other argument outside the identity is a guard."`
	Scope          scope          `json:"scope,omitempty" jsonschema:"How far the identity reaches: step (the default), run, parent_run or business."`
	Repeat         repeat         `json:"repeat,omitempty" jsonschema:"Whether another step of a run may repeat a success: step (the default: yes) or explicit (only on the host's word)."`
	AfterRejection afterRejection `json:"after_rejection,omitempty" jsonschema:"What a repeat of a definitely refused call does: replay (the default) or new_generation."`
	MaxGenerations int            `json:"max_generations,omitempty" jsonschema:"Cap on the generations of one identity in a run; default 3."`
	MaxAttempts    int            `json:"max_attempts,omitempty" jsonschema:"Cap on the attempts of one operation for its whole life; default 8."`
	Shared         shared         `json:"shared,omitempty" jsonschema:"tenant lets every actor of the tenant see the result."`
	Serialize      stringList     `json:"serialize,omitempty" jsonschema:"Identity fields that name the subject: one operation on it at a time."`

	Key           *carrierTerms   `json:"key,omitempty" jsonschema:"Where the provider takes our idempotency key."`
	Marker        *carrierTerms   `json:"marker,omitempty" jsonschema:"Where the request carries a reference of ours that a probe can find again, although the provider honours no key."`
	Retention     duration        `json:"retention,omitempty" jsonschema:"The minimum life of a key that the provider publishes. Without it nothing is ever sent again."`
	OnMismatch    expression      `json:"on_mismatch,omitempty" jsonschema:"CEL over response: the provider saw our key with other parameters."`
	OnConcurrent  expression      `json:"on_concurrent,omitempty" jsonschema:"CEL over response: the provider still works on our key."`
	OnDuplicate   *duplicateTerms `json:"on_duplicate,omitempty" jsonschema:"How the provider names the effect that our key already had."`
	ReplaysErrors bool            `json:"replays_errors,omitempty" jsonschema:"The provider stores failures under the key and replays them."`
	ReplaySignal  expression      `json:"replay_signal,omitempty" jsonschema:"CEL over response: the answer is the replay of an earlier one."`

	Conventions    conventions    `json:"conventions,omitempty" jsonschema:"As for the upstream, which it overrides."`
	ErrorShape     expression     `json:"error_shape,omitempty" jsonschema:"As for the upstream, which it overrides."`
	Success        expression     `json:"success,omitempty" jsonschema:"CEL over response: the effect exists. Without it a 2xx status says so, and for MCP a result that is no error."`
	EmptySuccess   emptySuccess   `json:"empty_success,omitempty" jsonschema:"As for the upstream, which it overrides."`
	Accepted       expression     `json:"accepted,omitempty" jsonschema:"CEL over response: taken in, lands later. A 202 always says so."`
	NoEffect       []noEffectTerm `json:"no_effect,omitempty" jsonschema:"Answers that prove that nothing happened."`
	BodyMayFail    bool           `json:"body_may_fail,omitempty" jsonschema:"A 2xx answer may carry a failure in its body (GraphQL, JSON-RPC), so an unreadable one proves nothing."`
	NeedsBody      bool           `json:"needs_body,omitempty" jsonschema:"The provider cannot act before it has read the request's body, not even on path and headers."`
	ExpectContinue bool           `json:"expect_continue,omitempty" jsonschema:"Ask for 100 Continue before sending the body."`
	Result         expression     `json:"result,omitempty" jsonschema:"CEL over response: the result. Default: response.body."`
	ResultRef      pointerOrCEL   `json:"result_ref,omitempty" jsonschema:"The provider's id of the effect: a JSON pointer into the answer's body, or CEL."`

	Probe    *probeTerms    `json:"probe,omitempty" jsonschema:"A read that tells whether the effect exists."`
	Fence    *fenceTerms    `json:"fence,omitempty" jsonschema:"A call that makes 'did not and will not happen' true."`
	Snapshot *snapshotTerms `json:"snapshot,omitempty" jsonschema:"A read of the state before the first attempt, kept as before."`

	Confirm *confirmTerms `json:"confirm,omitempty" jsonschema:"Which calls need a yes, from a person or the host, before they are sent: always, never (the default), or when."`
	Watch   *watchTerms   `json:"watch,omitempty" jsonschema:"Holds a call for a yes that looks like another one shortly before."`

	Timeout       duration       `json:"timeout,omitempty" jsonschema:"Longest wait for the answer; default 10s."`
	Linger        duration       `json:"linger,omitempty" jsonschema:"How long to listen for a late answer after the wait; default 20s."`
	MinTime       duration       `json:"min_time,omitempty" jsonschema:"Least time left in the turn for a start; default 1s."`
	Flight        duration       `json:"flight,omitempty" jsonschema:"Longest time from writing a request to its arrival or loss; default 15m."`
	Pause         duration       `json:"pause,omitempty" jsonschema:"Longest time between permit and write; default 1m."`
	Landing       duration       `json:"landing,omitempty" jsonschema:"Longest time between accepted and the effect."`
	NotAfter      *notAfterTerms `json:"not_after,omitempty" jsonschema:"The receiver refuses arrivals later than this after the permit."`
	ConvergentFor duration       `json:"convergent_for,omitempty" jsonschema:"How long after the first permit a convergent tool may resend; needs serialize."`
	DeadlineTo    *deadlineTerms `json:"deadline_to,omitempty" jsonschema:"Where the provider takes the deadline of the turn."`
}

type claimTerms struct {
	Claim      string `json:"claim" jsonschema:"What is claimed, such as: retention at least 24h."`
	Source     string `json:"source,omitempty" jsonschema:"The provider's page or statement."`
	VerifiedOn string `json:"verified_on,omitempty" jsonschema:"The day it was last checked: YYYY-MM-DD."`
}

type requestTerms struct {
	Method   method                `json:"method,omitempty" jsonschema:"GET, POST, PUT, PATCH or DELETE. Reads default to GET."`
	Path     template              `json:"path" jsonschema:"Path below the upstream's URL. {CEL} fills one segment, escaped: /orders/{args.order_id}/refunds."`
	Query    map[string]expression `json:"query,omitempty" jsonschema:"Query parameters, each CEL; a literal text needs its own quotes."`
	Headers  map[string]template   `json:"headers,omitempty" jsonschema:"Headers: text with {CEL}, and credentials as ${env:NAME} or ${file:/path}."`
	Body     *bodyTerms            `json:"body,omitempty" jsonschema:"args sends the canonical arguments. Otherwise a tree whose texts are CEL; a literal text needs its own quotes: \"'EUR'\"."`
	Encoding bodyEncoding          `json:"encoding,omitempty" jsonschema:"json (the default) or form."`
}

// whenTerms are the contracts of a tool that does several things.
type whenTerms map[string]caseTerms

// caseTerms is the contract that holds under a condition. What it leaves open of the request
// and of what its answers mean is that of its tool.
type caseTerms struct {
	If       expression `json:"if" jsonschema:"CEL over args: the case holds. What cannot be evaluated makes the tool's own terms hold."`
	Upstream string     `json:"upstream,omitempty" jsonschema:"Not given here: it is the tool's."`
	toolTerms
}

// unwrapTerms says where a tool that calls another one has that tool's name and arguments.
type unwrapTerms struct {
	Name      string     `json:"name" jsonschema:"JSON pointer to the argument that names the inner tool."`
	Arguments string     `json:"arguments" jsonschema:"JSON pointer to the argument that holds the inner arguments."`
	As        wrapping   `json:"as,omitempty" jsonschema:"object (the default), or text: the inner arguments are a text that holds JSON."`
	Tools     innerTerms `json:"tools" jsonschema:"The contracts of inner tools, by the name that they are called by. args are the inner arguments there."`
}

type innerTerms map[string]innerTool

// innerTool is the contract of an inner tool. What it leaves open of what its answers mean
// is that of the tool around it, and so is the request.
type innerTool struct {
	Upstream string `json:"upstream,omitempty" jsonschema:"Not given here: it is the tool's."`
	toolTerms
}

type callTerms struct {
	Upstream string     `json:"upstream,omitempty" jsonschema:"Another upstream that speaks MCP; default the tool's own. For reads that look at an effect."`
	Tool     string     `json:"tool,omitempty" jsonschema:"The tool as its server calls it."`
	Args     *bodyTerms `json:"args,omitempty" jsonschema:"args (the default) passes the arguments. Otherwise a tree whose texts are CEL; a literal text needs its own quotes."`
}

type carrierTerms struct {
	Carrier  carrier  `json:"carrier" jsonschema:"header, json_pointer (in the body), query, or resource_id (the path itself, by {key}); for MCP argument, meta (a key of _meta), or header."`
	Name     string   `json:"name,omitempty" jsonschema:"The header, the JSON pointer, the query parameter, the argument or its JSON pointer, or the key of _meta."`
	Encoding encoding `json:"encoding,omitempty" jsonschema:"hex (32 digits, the default), hex64, uuid (36 characters), base62 (22), base32hex (52), base32hex26 (26) or sf-string (hex in double quotes)."`
	MinLen   int      `json:"min_len,omitempty" jsonschema:"Least length that the provider takes."`
	MaxLen   int      `json:"max_len,omitempty" jsonschema:"Greatest length that the provider takes."`
	Charset  string   `json:"charset,omitempty" jsonschema:"The characters that the provider takes, as a character class such as [a-v0-9]."`
}

type duplicateTerms struct {
	When           expression    `json:"when" jsonschema:"CEL over response: our key already had its effect."`
	ConflictWithID pointerOrCEL  `json:"conflict_with_id" jsonschema:"The id of that effect: a JSON pointer into the answer's body, or CEL."`
	Read           *requestTerms `json:"read,omitempty" jsonschema:"How to read the effect by that id, which is operation.ref here."`
}

type probeTerms struct {
	Request       requestTerms  `json:"request,omitempty" jsonschema:"The read."`
	Call          *callTerms    `json:"call,omitempty" jsonschema:"The same by a tool of an upstream that speaks MCP."`
	By            matchKind     `json:"by" jsonschema:"By what a match is recognised: key, marker, state or business."`
	Match         expression    `json:"match" jsonschema:"CEL over response, args, identity, key, before, operation: the list of matching effects, or true or false."`
	Lag           *duration     `json:"lag,omitempty" jsonschema:"Longest time until an effect is visible to the probe."`
	Complete      expression    `json:"complete,omitempty" jsonschema:"CEL over response: the answer is the whole picture and not one page of it. Default: true."`
	Absent        expression    `json:"absent,omitempty" jsonschema:"CEL over response: an answer other than 2xx that means absent, such as response.status == 404."`
	InProgress    expression    `json:"in_progress,omitempty" jsonschema:"CEL over response: the provider knows the request and still works on it."`
	Result        expression    `json:"result,omitempty" jsonschema:"CEL over match and response: the result. Default: the match, or response.body."`
	Ref           expression    `json:"ref,omitempty" jsonschema:"CEL over match and response: the provider's id of the effect."`
	NegativeProof negativeProof `json:"negative_proof,omitempty" jsonschema:"after_quiescence: absent, asked late enough, proves that there is no effect."`
	SoleWriter    bool          `json:"sole_writer,omitempty" jsonschema:"Nobody but pawl makes this change to this subject; needs serialize."`
}

type fenceTerms struct {
	Request      requestTerms `json:"request,omitempty" jsonschema:"The call that sets the fence."`
	Call         *callTerms   `json:"call,omitempty" jsonschema:"The same by a tool of an upstream that speaks MCP."`
	Held         expression   `json:"held,omitempty" jsonschema:"CEL over response: the effect was absent and the fence is set. Default: a 2xx status."`
	Found        expression   `json:"found" jsonschema:"CEL over response: the effect already exists. It is asked before held; false where the answer never tells."`
	Result       expression   `json:"result,omitempty" jsonschema:"CEL over response: what the provider shows of a found effect."`
	Ref          expression   `json:"ref,omitempty" jsonschema:"CEL over response: the provider's id of a found effect."`
	RefusesLater bool         `json:"refuses_later,omitempty" jsonschema:"A later arrival under the fenced key is refused."`
	Tombstone    duration     `json:"tombstone,omitempty" jsonschema:"How long that refusal lasts."`
}

type snapshotTerms struct {
	Request requestTerms `json:"request,omitempty" jsonschema:"The read."`
	Call    *callTerms   `json:"call,omitempty" jsonschema:"The same by a tool of an upstream that speaks MCP."`
	Result  expression   `json:"result,omitempty" jsonschema:"CEL over response: the state. Default: response.body."`
	Absent  expression   `json:"absent,omitempty" jsonschema:"CEL over response: an answer other than 2xx that means that nothing was there, such as response.status == 404. before is null then."`
}

type noEffectTerm struct {
	When      expression `json:"when" jsonschema:"CEL over response."`
	Transient bool       `json:"transient,omitempty" jsonschema:"The refusal passes, so that the same operation may be tried again."`
}

type notAfterTerms struct {
	After  duration `json:"after" jsonschema:"Counted from the permit."`
	Header string   `json:"header" jsonschema:"The header that carries the time to the receiver, in UTC as RFC 3339: a time that is left would start anew at its arrival."`
}

type deadlineTerms struct {
	Header      string     `json:"header,omitempty" jsonschema:"The header that carries it."`
	JSONPointer string     `json:"json_pointer,omitempty" jsonschema:"The place in the body that carries it, as rfc3339: a body is computed once."`
	Meta        string     `json:"meta,omitempty" jsonschema:"The key of _meta that carries it, for MCP."`
	Format      timeFormat `json:"format,omitempty" jsonschema:"rfc3339 (the default), or ms or seconds left."`
}

// The words that a key may have. The first is the default where there is one.
type (
	class          string
	conventions    string
	scope          string
	repeat         string
	afterRejection string
	shared         string
	method         string
	bodyEncoding   string
	carrier        string
	encoding       string
	matchKind      string
	negativeProof  string
	timeFormat     string
	network        string
	wrapping       string
	era            string
	readOnlyHints  string
	undeclared     string
	emptySuccess   string
)

// word is a type whose values are a closed list.
type word interface{ words() []string }

func (class) words() []string          { return []string{"unsafe", "read", "keyed", "convergent"} }
func (conventions) words() []string    { return []string{"none", "http", "mcp"} }
func (scope) words() []string          { return []string{"step", "run", "parent_run", "business"} }
func (repeat) words() []string         { return []string{"step", "explicit"} }
func (afterRejection) words() []string { return []string{"replay", "new_generation"} }
func (shared) words() []string         { return []string{"tenant"} }
func (method) words() []string         { return []string{"GET", "POST", "PUT", "PATCH", "DELETE"} }
func (bodyEncoding) words() []string   { return []string{"json", "form"} }
func (carrier) words() []string {
	return []string{"header", "json_pointer", "query", "resource_id", "argument", "meta"}
}
func (encoding) words() []string {
	return []string{"hex", "hex64", "uuid", "base62", "base32hex", "base32hex26", "sf-string"}
}
func (matchKind) words() []string     { return []string{"key", "marker", "state", "business"} }
func (negativeProof) words() []string { return []string{"after_quiescence"} }
func (network) words() []string       { return []string{"any", "public"} }
func (wrapping) words() []string      { return []string{"object", "text"} }
func (timeFormat) words() []string    { return []string{"rfc3339", "ms", "seconds"} }
func (era) words() []string           { return []string{"auto", "legacy", "modern"} }
func (readOnlyHints) words() []string { return []string{"ignored", "trusted"} }
func (undeclared) words() []string    { return []string{"unsafe", "refuse"} }
func (emptySuccess) words() []string  { return []string{"doubt", "success"} }
