package pawl

import (
	"strings"
	"time"
)

// time reads a calendar date or an instant.
func (r *Rule) time(v any) (any, *FieldError) {
	s, ok := v.(string)
	if !ok {
		return nil, fault("want text, got %s", kindOf(v))
	}
	if s = strings.TrimSpace(s); s == "" {
		return nil, nil
	}
	if r.Kind == RuleDate {
		if s, ok = canonicalDate(s); !ok {
			return nil, fault("want a calendar date YYYY-MM-DD")
		}
		return s, nil
	}
	if s, ok = canonicalInstant(s); !ok {
		return nil, fault("want an instant with its offset, as RFC 3339 has it: 2026-01-31T12:00:00+01:00")
	}
	return s, nil
}

func canonicalDate(s string) (string, bool) {
	if !shaped(s, "dddd-dd-dd") {
		return "", false
	}
	_, err := time.Parse(time.DateOnly, s)
	return s, err == nil
}

// canonicalInstant moves an instant to UTC and keeps its fraction to the last digit but
// for trailing zeros. The fraction never goes through a time.Time, which would cut it.
func canonicalInstant(s string) (string, bool) {
	if len(s) < len("2006-01-02T15:04:05Z") || s[10]|0x20 != 't' || !shaped(s[:10], "dddd-dd-dd") || !shaped(s[11:19], "dd:dd:dd") {
		return "", false
	}
	t, err := time.Parse("2006-01-02T15:04:05", s[:10]+"T"+s[11:19])
	if err != nil {
		return "", false
	}
	fraction, zone := "", s[19:]
	if zone[0] == '.' {
		end := 1
		for end < len(zone) && '0' <= zone[end] && zone[end] <= '9' {
			end++
		}
		fraction, zone = zone[:end], zone[end:]
		if len(fraction) < 2 || len(fraction) > maxDigits {
			return "", false
		}
		fraction = strings.TrimRight(fraction, ".0")
	}
	switch {
	case zone == "Z" || zone == "z":
	case shaped(zone, "+dd:dd"):
		hours, minutes := int(zone[1]-'0')*10+int(zone[2]-'0'), int(zone[4]-'0')*10+int(zone[5]-'0')
		if hours > 23 || minutes > 59 {
			return "", false
		}
		offset := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
		if zone[0] == '+' {
			offset = -offset
		}
		t = t.Add(offset)
	default:
		return "", false
	}
	if t.Year() < 0 || t.Year() > 9999 {
		return "", false
	}
	return t.Format("2006-01-02T15:04:05") + fraction + "Z", true
}

// shaped reports whether s has a digit for every d, a sign for a plus, and otherwise the
// very bytes of the shape.
func shaped(s, shape string) bool {
	if len(s) != len(shape) {
		return false
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; shape[i] {
		case 'd':
			if c < '0' || c > '9' {
				return false
			}
		case '+':
			if c != '+' && c != '-' {
				return false
			}
		default:
			if c != shape[i] {
				return false
			}
		}
	}
	return true
}
