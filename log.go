package pawl

import "log/slog"

// LogValue is how an intent, and so an operation, appears in a log: as operation, key, tool
// and run, as far as it has them, and without anything of what it is about. As the value of an attribute without a
// key it stands among the others of its line.
func (in *Intent) LogValue() slog.Value {
	if in == nil {
		return slog.GroupValue()
	}
	var attrs []slog.Attr
	if in.ID != (ID{}) {
		attrs = append(attrs, slog.String("operation", in.ID.String()))
	}
	if in.Key != (Key{}) {
		attrs = append(attrs, slog.String("key", in.Key.String()))
	}
	if in.Tool != "" {
		attrs = append(attrs, slog.String("tool", in.Tool))
	}
	if in.Run != "" {
		attrs = append(attrs, slog.String("run", in.Run))
	}
	return slog.GroupValue(attrs...)
}

// about are the attributes of a line about an operation.
func about(in *Intent) slog.Attr { return slog.Any("", in) }

// RecordError says which operation an error is about: of a call whose record could not be
// written or read, or of a decision that could not be recorded.
type RecordError struct {
	// Intent is the one that was to be recorded, or that of the record to be changed.
	Intent *Intent
	Err    error
}

func (e *RecordError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RecordError) Unwrap() error { return e.Err }
