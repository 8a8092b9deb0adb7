package telemetry

import (
	"testing"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
)

// The names that are not ours are those of the last conventions that the Go module had them in.
func TestNamesAreTheConventions(t *testing.T) {
	t.Parallel()
	for got, want := range map[attribute.Key]attribute.Key{
		attrGenAIOperation:  semconv.GenAIOperationNameKey,
		attrGenAITool:       semconv.GenAIToolNameKey,
		attrGenAIToolType:   semconv.GenAIToolTypeKey,
		attrGenAIToolCallID: semconv.GenAIToolCallIDKey,
		attrHTTPStatus:      semconv.HTTPResponseStatusCodeKey,
		attrErrorType:       semconv.ErrorTypeKey,
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
