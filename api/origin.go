package api

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// sameOrigin lets requests through that were sent to a name of ours by a program or by a
// page of that same name. The name stops pages whose own name was made to point here; the
// origin stops pages of other sites, for reads too.
func sameOrigin(allowed []string, next http.Handler) http.Handler {
	names := map[string]bool{"localhost": true}
	for _, host := range allowed {
		names[strings.ToLower(strings.Trim(host, "[]"))] = true
	}
	known := func(host string) bool {
		host = hostname(host)
		if host == "" {
			return false
		}
		ip, err := netip.ParseAddr(host)
		return names[host] || err == nil && ip.Unmap().IsLoopback()
	}
	var cross http.CrossOriginProtection
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !known(r.Host) {
			write(w, problem(http.StatusForbidden, CodeHostRefused, "this server is not called under that name: add it to the allowed hosts"))
			return
		}
		// Reads are held to the same rule as writes.
		asWrite := &http.Request{Method: http.MethodPost, Header: r.Header, Host: r.Host, URL: r.URL}
		if cross.Check(asWrite) != nil || !ownOrigin(r) {
			write(w, problem(http.StatusForbidden, CodeOriginRefused, "pages of other origins may not call this server"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostname is the lower-case name of a Host header without its port, or nothing.
func hostname(host string) string {
	u := url.URL{Host: host}
	return strings.ToLower(u.Hostname())
}

// ownOrigin reports whether the request names no origin, or the one that it was sent to.
func ownOrigin(r *http.Request) bool {
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || !strings.EqualFold(u.Host, r.Host) {
			return false
		}
	}
	return true
}
