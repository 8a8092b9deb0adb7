package pawl

import (
	"encoding/json"
	"strconv"
	"strings"
)

// maxDigits bounds the numbers that identity fields may hold: digits before the point
// as well as after it. It keeps 1e1000000000 from being written out.
const maxDigits = 100

// decimal is an exact number: digits × 10^exp, without leading or trailing zeros among
// the digits. Zero has no digits and no sign.
type decimal struct {
	negative bool
	digits   string
	exp      int
}

// parseDecimal reads digits with an optional sign, fraction and exponent. It returns
// what is wrong, or "".
func parseDecimal(s string) (d decimal, wrong string) {
	const notANumber, tooLong = "not a number", "a number of more than 100 digits"
	mantissa, exponent := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent = s[:i], s[i+1:]
		if exponent = unsigned(exponent, &d.negative); !allDigits(exponent) {
			return decimal{}, notANumber
		}
		exponent = strings.TrimLeft(exponent, "0")
		if d.negative {
			exponent = "-" + exponent
		}
	}
	mantissa = unsigned(mantissa, &d.negative)
	whole, fraction, point := strings.Cut(mantissa, ".")
	if !allDigits(whole) || point && !allDigits(fraction) {
		return decimal{}, notANumber
	}
	if d.digits = strings.TrimLeft(whole+fraction, "0"); d.digits == "" {
		return decimal{}, ""
	}
	all := len(d.digits)
	d.digits = strings.TrimRight(d.digits, "0")
	d.exp = all - len(d.digits) - len(fraction)
	switch {
	case len(exponent) > 8: // far beyond what a text of at most MaxJSON could even out
		return decimal{}, tooLong
	case exponent != "" && exponent != "-":
		e, err := strconv.Atoi(exponent)
		if err != nil {
			return decimal{}, notANumber
		}
		d.exp += e
	}
	if len(d.digits)+max(d.exp, 0) > maxDigits || -d.exp > maxDigits {
		return decimal{}, tooLong
	}
	return d, ""
}

// unsigned cuts the sign off and says which it was.
func unsigned(s string, negative *bool) string {
	*negative = strings.HasPrefix(s, "-")
	if *negative || strings.HasPrefix(s, "+") {
		return s[1:]
	}
	return s
}

func allDigits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// shifted is the number times 10^places as an integer, if it is one.
func (d decimal) shifted(places int) (text string, whole bool) {
	zeros := d.exp + places
	if zeros < 0 {
		return "", false
	}
	if d.digits == "" {
		return "0", true
	}
	sign := ""
	if d.negative {
		sign = "-"
	}
	return sign + d.digits + strings.Repeat("0", zeros), true
}

// fixed is the number with exactly that many decimal places, if it needs no more.
func (d decimal) fixed(places int) (text string, exact bool) {
	text, exact = d.shifted(places)
	if !exact || places == 0 {
		return text, exact
	}
	sign := ""
	if d.negative {
		sign, text = "-", text[1:]
	}
	if short := places + 1 - len(text); short > 0 {
		text = strings.Repeat("0", short) + text
	}
	point := len(text) - places
	return sign + text[:point] + "." + text[point:], true
}

// plainNumbers copies a parsed value with every number in the shortest plain spelling, so
// that 10, 10.0 and 1e1 are one. Numbers of more than 100 digits stay as they are.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		d, wrong := parseDecimal(string(v))
		if wrong != "" {
			return v
		}
		text, _ := d.fixed(max(-d.exp, 0))
		return json.Number(text)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plainNumbers(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = plainNumbers(e)
		}
		return out
	}
	return v
}
