package evidence

import (
	"bytes"
	"errors"
	"mime"
	"strings"
)

// shape says what the body of a 2xx looks like.
type shape int

const (
	shapeIntact  shape = iota // whole, and what was declared
	shapeLost                 // what was declared, but cut, malformed or missing
	shapeForeign              // something else: nobody knows who answered
)

func (c *classifier) shape() shape {
	body := bytes.TrimLeft(c.res.Body, " \t\r\n")
	media := mediaType(c.res)
	wantJSON := c.r.ExpectBody || isJSON(media)
	page := c.res.Page()
	// The answer says of itself that it is not what was asked for.
	foreign := c.r.ExpectBody && media != "" && !isJSON(media) || page && c.r.Success == nil
	part := c.res.Intact() != nil
	if _, err := c.res.JSON(); err == nil {
		return shapeIntact
	}
	switch {
	case len(body) == 0 && !part:
		if c.r.ExpectBody {
			return shapeLost
		}
		return shapeIntact
	case len(body) > 0 && (body[0] == '{' || body[0] == '['):
		if part || wantJSON {
			return shapeLost
		}
		return shapeIntact
	case foreign:
		return shapeForeign
	case len(body) == 0 || errors.Is(c.res.BodyErr, ErrEncoded):
		return shapeLost
	case wantJSON:
		return shapeForeign
	case part:
		return shapeLost
	default:
		return shapeIntact
	}
}

func mediaType(res *Response) string {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return media
}

func isJSON(media string) bool {
	return media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}

// Page reports whether the answer is an HTML page, such as a login form or a notice of a
// hop on the way, and so none of an API.
func (r *Response) Page() bool {
	switch mediaType(r) {
	case "text/html", "application/xhtml+xml":
		return true
	}
	body := bytes.TrimLeft(r.Body, " \t\r\n")
	start := bytes.ToLower(body[:min(len(body), 16)])
	return bytes.HasPrefix(start, []byte("<!doctype html")) || bytes.HasPrefix(start, []byte("<html"))
}
