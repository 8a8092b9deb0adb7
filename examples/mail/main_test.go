package main

import (
	"bytes"
	"testing"
)

// TestMail: one request for each mail is on the wire, ever, until a person has decided.
func TestMail(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := play(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	const want = `mail refund_confirmed to ana@example.com: may or may not have been done: UNKNOWN (review_open), next ask_user
mail refund_confirmed to ben@example.com: may or may not have been done: UNKNOWN (review_open), next ask_user
mail refund_confirmed to ana@example.com: may or may not have been done: UNKNOWN (review_open), next ask_user
   Mara: happened, it is in the log: SUCCEEDED (person)
   Mara: did_not_happen, it is not in the log: refused (too_early)
   Mara: did_not_happen, it is not in the log: FAILED_NO_EFFECT (person)
mail refund_confirmed to ana@example.com: done: SUCCEEDED (person), next use_result
mail refund_confirmed to ben@example.com: done: SUCCEEDED (confirmed), next use_result
in the server's ledger:
   email.send to ana@example.com
   email.send to ben@example.com
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
