package pawl

import "context"

type traceContext struct{}

// WithTrace returns a context in which requests to providers carry a W3C trace context, the
// value of the header traceparent. A value that has another form changes nothing. An
// operation keeps the one that it began in; its stored request has none.
func WithTrace(ctx context.Context, parent string) context.Context {
	if !isTrace(parent) {
		return ctx
	}
	return context.WithValue(ctx, traceContext{}, parent)
}

// TraceOf returns what WithTrace set, or nothing.
func TraceOf(ctx context.Context) string {
	parent, _ := ctx.Value(traceContext{}).(string)
	return parent
}

// isTrace reports whether a value has the form of version 00: four groups of lower-case hex
// digits, of which the ids are not zero.
func isTrace(s string) bool {
	const form = "00-tttttttttttttttttttttttttttttttt-ssssssssssssssss-ff"
	if len(s) != len(form) {
		return false
	}
	var trace, span bool
	for i := range len(form) {
		c := s[i]
		digit := '0' <= c && c <= '9' || 'a' <= c && c <= 'f'
		switch form[i] {
		case 't':
			trace = trace || c != '0'
		case 's':
			span = span || c != '0'
		case 'f':
		default:
			digit = c == form[i]
		}
		if !digit {
			return false
		}
	}
	return trace && span
}
