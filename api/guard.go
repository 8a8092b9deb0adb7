package api

import "net/http"

// Guard puts another door behind the checks that the API itself has: the name that it is
// called under, the page that calls, and the token, which must have the scope. What it
// bounds of a request is only this; the door bounds the rest.
func Guard(o *Options, need Scope, next func(w http.ResponseWriter, r *http.Request, who Principal)) http.Handler {
	d := &door{opts: o.withDefaults()}
	return d.recovered(sameOrigin(d.opts.AllowedHosts, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, p := begin(&d.opts, r)
		if p == nil && !access(need).allows(&s.Principal) {
			p = problem(http.StatusForbidden, CodeScopeMissing, "the token lacks the scope %q", need)
		}
		if p != nil {
			write(w, p)
			return
		}
		next(w, r, s.Principal)
	})))
}
