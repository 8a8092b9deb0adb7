package pawl

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestMinorUnitsFollowTheCurrency(t *testing.T) { // trial Q1
	t.Parallel()
	tests := []struct {
		amount   any
		currency string
		want     string // empty: refused
	}{
		{json.Number("80"), "JPY", "80"},
		{json.Number("80.00"), "JPY", "80"},
		{json.Number("80.5"), "JPY", ""},
		{json.Number("1.005"), "KWD", "1005"},
		{json.Number("10"), "USD", "1000"},
		{"10.00", " usd ", "1000"},
		{" 0.05 ", "EUR", "5"},
		{"-3.1", "EUR", "-310"},
		{json.Number("-0"), "EUR", "0"},
		{json.Number("1e2"), "EUR", "10000"},
		{"0.0001", "CLF", "1"},
		{"99999999999999999999.99", "EUR", "9999999999999999999999"},
		{"10.001", "USD", ""},
		{"1.0001", "KWD", ""},
		{"10", "XAU", ""},
		{"10", "", ""},
		{"10", "US", ""},
		{"10", "EURO", ""},
		{"", "USD", ""},
		{"ten", "USD", ""},
		{"1e1000000000", "USD", ""},
		{10.5, "USD", ""},
		{nil, "USD", ""},
	}
	for _, tt := range tests {
		got, err := MinorUnits(tt.amount, tt.currency)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("MinorUnits(%v, %q): got %q, %v, want %q", tt.amount, tt.currency, got, err, tt.want)
		}
	}
	if _, err := MinorUnits("canary", "canary"); strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v, want an error without the values", err)
	}
}

func TestCurrencyTable(t *testing.T) {
	t.Parallel()
	for code, digits := range map[string]int{
		"JPY": 0, "KRW": 0, "VND": 0, "CLP": 0, "ISK": 0, "UGX": 0, "XOF": 0, "XAF": 0, "XPF": 0, "UYI": 0, "PYG": 0, "RWF": 0,
		"EUR": 2, "USD": 2, "GBP": 2, "CHF": 2, "HUF": 2, "TWD": 2, "IDR": 2, "MGA": 2, "MRU": 2, "XCD": 2, "ZWG": 2, "COP": 2,
		"BHD": 3, "IQD": 3, "JOD": 3, "KWD": 3, "LYD": 3, "OMR": 3, "TND": 3, "CLF": 4, "UYW": 4,
	} {
		if got, known := currencyDigits(code); !known || got != digits {
			t.Errorf("%s: got %d, %v, want %d", code, got, known, digits)
		}
	}
	for code := range minorDigits {
		if len(code) != 3 || strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			t.Errorf("got code %q, want three capital letters", code)
		}
	}
	for _, code := range []string{"XAU", "XTS", "XXX", "DEM", "HRK", "BTC"} {
		if _, known := currencyDigits(code); known {
			t.Errorf("%s: got known, want unknown", code)
		}
	}
}
