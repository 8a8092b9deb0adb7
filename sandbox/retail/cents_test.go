package retail

import (
	"encoding/json"
	"testing"
)

func TestCents(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Cents{"0": 0, "47.84": 4784, "47.8": 4780, "-0.05": -5, "536": 53600, "123456789012.34": 12345678901234} {
		var got Cents
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"1.234", "1e2", `"1"`, "1234567890123", "true", "--1", "1.+2"} {
		var got Cents
		if err := got.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s: got %d, want an error", text, got)
		}
	}
}

func FuzzCents(f *testing.F) {
	f.Add([]byte("-12.5"))
	f.Add([]byte(".5"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var c, again Cents
		if c.UnmarshalJSON(text) != nil {
			return
		}
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if err := json.Unmarshal(b, &again); err != nil || again != c {
			t.Fatalf("%q: got %d back as %s, %v, want %d", text, again, b, err, c)
		}
	})
}
