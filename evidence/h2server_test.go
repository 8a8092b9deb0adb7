package evidence

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// testCert is a certificate for 127.0.0.1 and example.test, its own authority.
var testCert = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pawl test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"example.test"},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
})

// trusting is a client's configuration that trusts testCert.
func trusting() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(testCert().Leaf)
	return &tls.Config{RootCAs: roots}
}

func serverTLS(protos ...string) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{testCert()}, NextProtos: protos}
}

// h2Conn speaks HTTP/2 frame by frame. It acknowledges SETTINGS and PING by itself.
type h2Conn struct {
	*rawConn
	fr   *http2.Framer
	hbuf bytes.Buffer
	enc  *hpack.Encoder
}

// serveH2 runs script on each connection after the preface and SETTINGS.
func serveH2(t *testing.T, script func(c *h2Conn)) *rawServer {
	t.Helper()
	return serveTLS(t, serverTLS("h2"), func(raw *rawConn) {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(raw.br, preface); err != nil || string(preface) != http2.ClientPreface {
			return
		}
		c := &h2Conn{rawConn: raw, fr: http2.NewFramer(raw.Conn, raw.br)}
		c.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		c.enc = hpack.NewEncoder(&c.hbuf)
		c.fr.WriteSettings()
		script(c)
	})
}

// next waits for a request that is complete and returns its stream; 0 when the client is gone.
func (c *h2Conn) next() uint32 {
	measured := map[uint32]bool{}
	for {
		f, err := c.fr.ReadFrame()
		if err != nil {
			return 0
		}
		end := false
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				c.fr.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				c.fr.WritePing(true, f.Data)
			}
		case *http2.MetaHeadersFrame:
			measured[f.StreamID] = f.PseudoValue("path") != "/warm"
			if measured[f.StreamID] {
				c.heads.Add(1)
				c.see()
			}
			end = f.StreamEnded()
		case *http2.DataFrame:
			if measured[f.StreamID] {
				c.body.Add(int64(len(f.Data())))
			}
			end = f.StreamEnded()
		}
		if end {
			id := f.Header().StreamID
			if measured[id] {
				c.requests.Add(1)
			}
			return id
		}
	}
}

// exec waits for a whole request and has its effect.
func (c *h2Conn) exec() uint32 {
	id := c.next()
	if id != 0 {
		c.effects.Add(1)
	}
	return id
}

// answer sends response headers, and a body if there is one.
func (c *h2Conn) answer(id uint32, status, body string) {
	c.headers(id, status, body == "")
	if body != "" {
		c.fr.WriteData(id, true, []byte(body))
	}
}

func (c *h2Conn) headers(id uint32, status string, end bool) {
	c.hbuf.Reset()
	c.enc.WriteField(hpack.HeaderField{Name: ":status", Value: status})
	c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.hbuf.Bytes(), EndHeaders: true, EndStream: end})
}

// warm serves the warm-up request.
func (c *h2Conn) warm() bool {
	id := c.next()
	if id != 0 {
		c.answer(id, "200", "ok")
	}
	return id != 0
}

// then answers whatever else comes with 200, until the client is gone. Requests that
// come here have their effect: a hidden repeat would be counted.
func (c *h2Conn) then() {
	for {
		id := c.exec()
		if id == 0 {
			return
		}
		c.answer(id, "200", "ok")
	}
}
