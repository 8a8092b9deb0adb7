package postgres

import (
	"bytes"
	"slices"
)

// ordered sorts rows by their first value, so that transactions which write the same rows
// take their locks in the same order.
func ordered(rows []*tuple) []*tuple {
	slices.SortFunc(rows, func(a, b *tuple) int { return bytes.Compare(a.values[0], b.values[0]) })
	return rows
}

// distinct sorts rows by their first value and leaves one of each.
func distinct(rows []*tuple) []*tuple {
	return slices.CompactFunc(ordered(rows), func(a, b *tuple) bool { return bytes.Equal(a.values[0], b.values[0]) })
}
