package evidence

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// published is the status table as the design has it, in the shape of the upstream's own
// answers: status, first attempt, later attempt. C marks the conflict family.
const published = `
101  AMBIGUOUS        AMBIGUOUS
200  SUCCEEDED        SUCCEEDED
201  SUCCEEDED        SUCCEEDED
202  ACCEPTED         ACCEPTED
203  AMBIGUOUS        AMBIGUOUS
204  SUCCEEDED        SUCCEEDED
205  SUCCEEDED        SUCCEEDED
206  AMBIGUOUS        AMBIGUOUS
207  EFFECT_POSSIBLE  EFFECT_POSSIBLE
208  AMBIGUOUS        AMBIGUOUS
218  AMBIGUOUS        AMBIGUOUS
226  AMBIGUOUS        AMBIGUOUS
300  AMBIGUOUS        AMBIGUOUS
301  AMBIGUOUS        AMBIGUOUS
302  AMBIGUOUS        AMBIGUOUS
303  AMBIGUOUS        AMBIGUOUS
304  AMBIGUOUS        AMBIGUOUS
305  AMBIGUOUS        AMBIGUOUS
306  AMBIGUOUS        AMBIGUOUS
307  REJECTED/P4      AMBIGUOUS
308  REJECTED/P4      AMBIGUOUS
400  REJECTED/P4      REJECTED/P4
401  REJECTED/P4      AMBIGUOUS
402  EFFECT_POSSIBLE  EFFECT_POSSIBLE
403  REJECTED/P4      AMBIGUOUS
404  REJECTED/P4      AMBIGUOUS/C
405  REJECTED/P4      REJECTED/P4
406  AMBIGUOUS        AMBIGUOUS
407  AMBIGUOUS        AMBIGUOUS
408  AMBIGUOUS        AMBIGUOUS
409  AMBIGUOUS        AMBIGUOUS/C
410  REJECTED/P4      AMBIGUOUS/C
411  REJECTED/P4      REJECTED/P4
412  REJECTED/P4      AMBIGUOUS/C
413  REJECTED/P4      REJECTED/P4
414  REJECTED/P4      REJECTED/P4
415  REJECTED/P4      REJECTED/P4
417  REJECTED/P4      REJECTED/P4
418  AMBIGUOUS        AMBIGUOUS
421  REJECTED/P4      REJECTED/P4
422  REJECTED/P4      AMBIGUOUS/C
423  AMBIGUOUS        AMBIGUOUS/C
424  AMBIGUOUS        AMBIGUOUS
425  REJECTED/P4      REJECTED/P4
426  REJECTED/P4      REJECTED/P4
428  REJECTED/P4      REJECTED/P4
429  REJECTED/P4      REJECTED/P4
431  REJECTED/P4      REJECTED/P4
451  REJECTED/P4      REJECTED/P4
460  AMBIGUOUS        AMBIGUOUS
463  AMBIGUOUS        AMBIGUOUS
499  AMBIGUOUS        AMBIGUOUS
500  EFFECT_POSSIBLE  EFFECT_POSSIBLE
501  REJECTED/P4      REJECTED/P4
502  AMBIGUOUS        AMBIGUOUS
503  AMBIGUOUS        AMBIGUOUS
504  AMBIGUOUS        AMBIGUOUS
505  REJECTED/P4      REJECTED/P4
507  EFFECT_POSSIBLE  EFFECT_POSSIBLE
508  EFFECT_POSSIBLE  EFFECT_POSSIBLE
509  EFFECT_POSSIBLE  EFFECT_POSSIBLE
510  REJECTED/P4      REJECTED/P4
511  NOT_SENT/P4      NOT_SENT/P4
520  AMBIGUOUS        AMBIGUOUS
521  AMBIGUOUS        AMBIGUOUS
522  AMBIGUOUS        AMBIGUOUS
523  AMBIGUOUS        AMBIGUOUS
524  AMBIGUOUS        AMBIGUOUS
525  AMBIGUOUS        AMBIGUOUS
526  AMBIGUOUS        AMBIGUOUS
527  AMBIGUOUS        AMBIGUOUS
530  AMBIGUOUS        AMBIGUOUS
599  AMBIGUOUS        AMBIGUOUS
999  AMBIGUOUS        AMBIGUOUS
`

// aHop lists the statuses that mean the same whoever says them.
var aHop = map[int]bool{407: true, 421: true, 425: true, 511: true, 521: true, 523: true, 525: true, 526: true, 530: true}

func inShort(e pawl.Evidence) string {
	s := string(e.Class)
	if e.Strength != "" {
		s += "/" + string(e.Strength)
	}
	if e.Conflict {
		s += "/C"
	}
	return s
}

// answer is an observation of a whole exchange.
func answer(status int, contentType, body string) *Observation {
	h := http.Header{}
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
	return &Observation{
		HadConnection: true, BytesBegun: 180, BodySize: 28, BodyPulled: 28,
		Response: &Response{Status: status, Header: h, Body: []byte(body), Size: int64(len(body))},
	}
}

func own(status int) *Observation { return answer(status, "application/json", `{"id":1}`) }

func TestStatusTable(t *testing.T) {
	t.Parallel()
	listed := map[int]bool{}
	for line := range strings.Lines(strings.TrimSpace(published) + "\n") {
		var status int
		var first, later string
		if _, err := fmt.Sscan(line, &status, &first, &later); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		listed[status] = true
		for attempt, want := range []string{1: first, 2: later, 3: later} {
			if attempt == 0 {
				continue
			}
			if got := inShort(Classify(own(status), nil, attempt)); got != want {
				t.Errorf("%d, attempt %d, own shape: got %s, want %s", status, attempt, got, want)
			}
			if status < 400 {
				continue
			}
			if !aHop[status] {
				want = "AMBIGUOUS" + want[len(strings.TrimSuffix(want, "/C")):]
			}
			for name, o := range map[string]*Observation{
				"empty": answer(status, "", ""), "page": answer(status, "text/html", "<html></html>"),
				"undeclared": answer(status, "", `{"a":1}`), "no object": answer(status, "application/json", `[]`),
				"broken": answer(status, "application/json", `{"a":`),
			} {
				if got := inShort(Classify(o, nil, attempt)); got != want {
					t.Errorf("%d, attempt %d, %s: got %s, want %s", status, attempt, name, got, want)
				}
			}
		}
	}
	for status := range statusRows {
		if !listed[status] {
			t.Errorf("status %d is in the table and not in the published one", status)
		}
	}
}

func TestStatusTableConditions(t *testing.T) {
	t.Parallel()
	proxied := func(o *Observation) *Observation { o.Proxied = true; return o }
	cloudflare := func(o *Observation) *Observation {
		o.Response.Header.Set("Cf-Ray", "1")
		o.Response.Header.Set("Server", "cloudflare")
		return o
	}
	unsent := func(o *Observation) *Observation { o.BodyPulled = 0; return o }
	for _, row := range []struct {
		name         string
		o            *Observation
		r            *Rules
		first, later string
	}{
		{"407 of a proxy", proxied(answer(407, "text/html", "<html>")), nil, "REJECTED/P2", "AMBIGUOUS"},
		{"521 of Cloudflare", cloudflare(answer(521, "text/html", "<html>")), nil, "NOT_SENT/P4", "NOT_SENT/P4"},
		{"522 of Cloudflare", cloudflare(own(522)), nil, "AMBIGUOUS", "AMBIGUOUS"},
		{"408 before the body it needs", unsent(own(408)), &Rules{NeedsBody: true}, "REJECTED/P4", "AMBIGUOUS"},
		{"408 before a body it does not need", unsent(own(408)), nil, "AMBIGUOUS", "AMBIGUOUS"},
		{"a declared shape", answer(404, "text/xml", "<error/>"), &Rules{OwnShape: func(r *Response) bool { return strings.HasPrefix(string(r.Body), "<error") }}, "REJECTED/P4", "AMBIGUOUS/C"},
		{"a declared shape that is missing", own(404), &Rules{OwnShape: func(*Response) bool { return false }}, "AMBIGUOUS", "AMBIGUOUS/C"},
		{"problem+json", answer(400, "application/problem+json; charset=utf-8", `{"type":"x"}`), nil, "REJECTED/P4", "REJECTED/P4"},
	} {
		for attempt, want := range map[int]string{1: row.first, 2: row.later} {
			if got := inShort(Classify(row.o, row.r, attempt)); got != want {
				t.Errorf("%s, attempt %d: got %s, want %s", row.name, attempt, got, want)
			}
		}
	}
}
