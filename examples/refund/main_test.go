package main

import (
	"bytes"
	"testing"
)

// TestRefund: nothing above 100.00 is sent without a yes, and with it once.
func TestRefund(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := play(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	const want = `refund of 49.90 EUR on order A-1: done: executed, SUCCEEDED (confirmed)
refund of 149.00 EUR on order A-2: not done yet: executed, PREPARED (approval_needed)
refund of 149.00 EUR on order A-2: not done yet: replayed, PREPARED (approval_needed)
   Mara: approve, the photos show it: PREPARED (approved)
refund of 149.00 EUR on order A-2: done: executed, SUCCEEDED (confirmed)
refund of 149.00 EUR on order A-2: done: replayed, SUCCEEDED (confirmed)
refund of 199.00 EUR on order A-3: not done yet: executed, PREPARED (approval_needed)
   Mara: reject, it was delivered whole: FAILED_NO_EFFECT (not_approved)
refund of 199.00 EUR on order A-3: not done: replayed, FAILED_NO_EFFECT (not_approved)
in the shop's ledger:
   refund.create of 49.90 EUR on A-1
   refund.create of 149.00 EUR on A-2
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
