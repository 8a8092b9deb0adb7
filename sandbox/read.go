package sandbox

import (
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// read answers a list or an object.
func (x *exchange) read() (answer, error) {
	var p *problem
	body, err := x.look()
	switch {
	case errors.As(err, &p):
		outcome := "rejected"
		if p.Status == http.StatusNotFound {
			outcome = "absent"
		}
		return p.answer(), x.decided(outcome, 0)
	case err != nil:
		return answer{}, err
	}
	outcome := "read"
	if x.absent {
		outcome = "absent"
	}
	return answer{status: 200, body: body}, x.decided(outcome, 0)
}

func (x *exchange) look() ([]byte, error) {
	now, service := x.s.Now(), x.ep.service
	objects := service
	if x.ep.objects != "" {
		objects = x.ep.objects
	}
	if x.ep.guise != nil {
		return x.lookGuise(now)
	}
	if x.ep.list == nil {
		id := x.r.PathValue("id")
		if x.absent {
			return nil, notFound(service, id)
		}
		body, err := readObject(x.s.ledger.reads, now, objects, id)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, notFound(service, id)
		}
		return body, err
	}
	query, err := url.ParseQuery(x.r.URL.RawQuery)
	if err != nil {
		return nil, invalid("query", "it is not well formed")
	}
	terms, after, limit, err := x.ep.filters(query)
	if err != nil {
		return nil, err
	}
	if x.absent {
		return json.Marshal(page{Data: []json.RawMessage{}})
	}
	p, err := listObjects(x.s.ledger.reads, now, objects, x.s.mode(service), terms, after, limit)
	if err != nil {
		return nil, err
	}
	return json.Marshal(p)
}

// lists reports whether a list can be filtered by a name.
func (e *endpoint) lists(name string) bool {
	return slices.Contains(e.list, name) || e.metadata && strings.HasPrefix(name, "metadata.")
}

// filters reads the parameters of a list.
func (e *endpoint) filters(query url.Values) (terms []term, after string, limit int, err error) {
	limit = 50
	for _, name := range slices.Sorted(maps.Keys(query)) {
		values := query[name]
		switch {
		case e.lists(name):
			for _, value := range values {
				if value == "" || len(terms) == maxTerms {
					return nil, "", 0, invalid(clip(name), "want a value, and at most %d filters", maxTerms)
				}
				terms = append(terms, term{name, value})
			}
		case name != "limit" && name != "after":
			return nil, "", 0, invalid(clip(name), "no such parameter; this list has %s, limit, after", strings.Join(e.list, ", "))
		case len(values) != 1:
			return nil, "", 0, invalid(name, "given more than once")
		case name == "after":
			after = values[0]
		default:
			if limit, err = strconv.Atoi(values[0]); err != nil || limit < 1 || limit > 200 {
				return nil, "", 0, invalid("limit", "want a number from 1 to 200")
			}
		}
	}
	return terms, after, limit, nil
}
