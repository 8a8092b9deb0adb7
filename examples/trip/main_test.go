package main

import (
	"bytes"
	"testing"
)

// TestTrip: in each ending every compensation has one effect in the provider's ledger, and
// what cannot be undone is listed.
func TestTrip(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := play(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	const want = `1. The hotel is booked, the flight is refused
   book_hotel   SUCCEEDED (confirmed)
   book_flight  FAILED_NO_EFFECT (rejected)
   send_email   FAILED_NO_EFFECT (plan_order)
   The run was called off by ana: 1 undone, 1 never happened.
   in the provider's ledger: booking.hotel, booking.cancel
2. It is not known whether the hotel was booked
   book_hotel   UNKNOWN (ambiguous)
   book_flight  FAILED_NO_EFFECT (plan_order)
   send_email   FAILED_NO_EFFECT (plan_order)
   The run was called off by ana: 1 undone.
   in the provider's ledger: booking.hotel, booking.cancel
3. The answer of the cancellation is lost
   book_hotel   SUCCEEDED (confirmed)
   book_flight  FAILED_NO_EFFECT (rejected)
   send_email   FAILED_NO_EFFECT (plan_order)
   The run was called off by ana: 1 undone, 1 never happened.
   in the provider's ledger: booking.hotel, booking.cancel
4. The e-mail is out already
   book_hotel   SUCCEEDED (confirmed)
   book_flight  SUCCEEDED (confirmed)
   send_email   SUCCEEDED (confirmed)
   The run was called off by ana: 2 undone, 1 cannot be undone. To do: send a correction e-mail.
   in the provider's ledger: booking.hotel, booking.flight, email.send, booking.cancel, booking.cancel
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
