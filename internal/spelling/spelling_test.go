package spelling

import "testing"

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"issue_refund", "send_email", "read"}
	for _, c := range []struct{ word, want string }{
		{"isue_refund", "issue_refund"},
		{"send_mail", "send_email"},
		{"raed", "read"},
		{"read", "read"},
		{"READ", "read"},
		{"close_ticket", ""},
		{"", ""},
	} {
		if got := Nearest(c.word, known); got != c.want {
			t.Errorf("Nearest(%q): got %q, want %q", c.word, got, c.want)
		}
	}
	if got := Nearest("anything", nil); got != "" {
		t.Errorf("got %q of no words", got)
	}
}
