package evidence

import (
	"fmt"
	"net/netip"
)

// PublicOnly is an Options.Allow for upstreams on the public internet: it refuses
// loopback, private, link-local and other special addresses, the metadata services of
// clouds among them, and those that embed an IPv4 address.
func PublicOnly(to netip.AddrPort) error {
	a := to.Addr().Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return fmt.Errorf("address %v is not public", a)
	}
	for _, p := range specialPrefixes {
		if p.Contains(a) {
			return fmt.Errorf("address %v is not public", a)
		}
	}
	return nil
}

// specialPrefixes are global by their form and still no place for an upstream.
var specialPrefixes = func() (list []netip.Prefix) {
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "168.63.129.16/32", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
		"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16",
		"3fff::/20", "5f00::/16", "fec0::/10",
	} {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}()
