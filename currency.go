package pawl

import (
	"encoding/json"
	"fmt"
	"strings"
)

// minorDigits maps the active currency codes of ISO 4217 to the digits of their minor
// unit. Codes without one, such as gold and the testing code, are no money here.
var minorDigits = func() map[string]int {
	m := make(map[string]int, 180)
	for digits, codes := range map[int]string{
		0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
		2: "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF CHW " +
			"CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF " +
			"IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK " +
			"MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP " +
			"SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XCD XCG YER " +
			"ZAR ZMW ZWG",
		3: "BHD IQD JOD KWD LYD OMR TND",
		4: "CLF UYW",
	} {
		for code := range strings.FieldsSeq(codes) {
			m[code] = digits
		}
	}
	return m
}()

// currencyDigits reads an ISO 4217 code, in any case and with white space around it.
func currencyDigits(code string) (digits int, known bool) {
	if code = strings.TrimSpace(code); len(code) != 3 { // 'ı' and 'ſ' too have ASCII capitals
		return 0, false
	}
	digits, known = minorDigits[strings.ToUpper(code)]
	return digits, known
}

// MinorUnits turns an amount, a string or a json.Number, into the whole number of minor
// units that many providers want: 10 USD are 1000, 80 JPY are 80, 1.005 KWD are 1005.
// An amount with more places than the currency has is an error, never rounded.
func MinorUnits(amount any, currency string) (string, error) {
	digits, known := currencyDigits(currency)
	if !known {
		return "", fmt.Errorf("minor units: not an active ISO 4217 currency code")
	}
	var text string
	switch a := amount.(type) {
	case string:
		text = strings.TrimSpace(a)
	case json.Number:
		text = string(a)
	default:
		return "", fmt.Errorf("minor units: want an amount as text or number, got %s", kindOf(amount))
	}
	d, wrong := parseDecimal(text)
	if wrong != "" {
		return "", fmt.Errorf("minor units: the amount is %s", wrong)
	}
	units, exact := d.shifted(digits)
	if !exact {
		return "", fmt.Errorf("minor units: the amount has more than the %d decimal places of its currency", digits)
	}
	return units, nil
}
