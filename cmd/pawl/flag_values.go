package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// timeFlag adds a flag that takes a time above 0.
func timeFlag(c *cobra.Command, to *time.Duration, name string, byDefault time.Duration, help string) {
	*to = byDefault
	c.Flags().Var((*timeValue)(to), name, help)
}

// timeValue is the value of such a flag.
type timeValue time.Duration

func (v *timeValue) String() string { return time.Duration(*v).String() }

func (*timeValue) Type() string { return "time" }

var errTime = errors.New("want a time above 0, such as 45s, 10m or 90d")

// maxDays keeps a time in days inside what a duration holds.
const maxDays = 100_000

func (v *timeValue) Set(text string) error {
	d, err := time.ParseDuration(text)
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		var n int
		if n, err = strconv.Atoi(days); n <= maxDays {
			d = time.Duration(n) * 24 * time.Hour
		}
	}
	if err != nil || d <= 0 {
		return errTime
	}
	*v = timeValue(d)
	return nil
}

// wholeFlag adds a flag that takes a whole number from least to most.
func wholeFlag[T ~int | ~int64](c *cobra.Command, to *T, name string, byDefault, least, most T, help string) {
	*to = byDefault
	c.Flags().Var(&wholeValue[T]{to, least, most}, name, help)
}

// wholeValue is the value of such a flag.
type wholeValue[T ~int | ~int64] struct {
	to          *T
	least, most T
}

func (v *wholeValue[T]) String() string {
	if v.to == nil {
		return ""
	}
	return itoa(*v.to)
}

func (*wholeValue[T]) Type() string { return "number" }

func (v *wholeValue[T]) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || T(n) < v.least || T(n) > v.most {
		return fmt.Errorf("want a whole number from %d to %d", v.least, v.most)
	}
	*v.to = T(n)
	return nil
}
