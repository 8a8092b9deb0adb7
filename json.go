package pawl

import "errors"

// ParseJSON reads one JSON text strictly. It yields map[string]any, []any, string,
// json.Number (its digits as written), bool and nil. TODO(strict json helper).
func ParseJSON(raw []byte) (any, error) { return nil, errors.New("not built") }

// AppendJSON appends the canonical JSON of a value that ParseJSON could have made.
func AppendJSON(dst []byte, v any) ([]byte, error) { return dst, errors.New("not built") }
