package trials

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/pawl-dev/pawl"
)

// A handed permit is one whose request a script sends itself.
type handed struct {
	by     string
	permit *pawl.Permit
	answer *pawl.Answer // of the provider, once it was sent
}

// permitCommands are for callers that send themselves.
//
//	permit NAME CALL    ask for a permit; print the envelope
//	send NAME           put its request on the wire, once, and keep the answer
//	report NAME         hand the answer over, the caller's own or what a webhook says of it; print
//	                    the envelope, or the rule that refuses the report
var permitCommands = map[string]func(w *world, rest string){
	"permit": func(w *world, rest string) {
		name, text, _ := strings.Cut(rest, " ")
		q := w.wish(text)
		ctx, cancel := context.WithTimeout(context.Background(), turn)
		defer cancel()
		p, env, err := w.executor(q.by).Permit(ctx, q.call)
		w.check(err)
		w.permits[name] = &handed{by: q.by, permit: p}
		w.printf("%s", w.show(&env, false))
	},
	"send": func(w *world, name string) {
		h := w.permits[name]
		if h == nil || h.permit == nil || h.answer != nil {
			w.fatalf("there is no permit %q that is not used yet", name)
		}
		var err error
		h.answer, err = w.provider.put(h.permit)
		w.check(err)
	},
	"report": func(w *world, name string) {
		h := w.permits[name]
		env, err := w.executor(h.by).ReportPermit(context.Background(), "", "", h.permit.Operation,
			pawl.PermitReport{Attempt: h.permit.Attempt, Token: h.permit.Token, Answer: h.answer})
		var refused *pawl.Refusal
		if errors.As(err, &refused) {
			w.printf("refused: %s", refused.Why)
			return
		}
		w.check(err)
		w.printf("%s", w.show(&env, false))
	},
}

// put sends the request of a permit as it is stored, with the headers that it must carry.
func (p *provider) put(permit *pawl.Permit) (*pawl.Answer, error) {
	r := textproto.NewReader(bufio.NewReader(bytes.NewReader(permit.Request)))
	line, err := r.ReadLine()
	if err != nil {
		return nil, err
	}
	header, err := r.ReadMIMEHeader()
	if err != nil {
		return nil, err
	}
	method, url, _ := strings.Cut(line, " ")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, url, r.R)
	if err != nil {
		return nil, err
	}
	q.Header, q.Close = http.Header(header), true
	for name, value := range permit.Header {
		q.Header.Set(name, value)
	}
	res, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return &pawl.Answer{Status: res.StatusCode, Header: res.Header, Body: body}, err
}
