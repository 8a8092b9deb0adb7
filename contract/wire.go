package contract

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"time"

	"github.com/pawl-dev/pawl/evidence"
)

// wire is the way to one upstream, shared by its tools.
type wire struct {
	transport *evidence.Transport
	vault     *vault
	origin    string
}

func newWire(up *upstream, o *Options, v *vault) (*wire, error) {
	eo, err := wireOptions(up, o)
	if err != nil {
		return nil, err
	}
	return &wire{evidence.New(eo), v, origin(up.url)}, nil
}

// wireOptions are how connections to an upstream are made.
func wireOptions(up *upstream, o *Options) (*evidence.Options, error) {
	eo := &evidence.Options{
		DialTimeout: time.Duration(up.terms.ConnectTimeout), MaxResponse: int64(up.terms.MaxResponse), Allow: o.Allow,
	}
	if up.terms.Network == "public" {
		eo.Allow = func(a netip.AddrPort) error {
			err := evidence.PublicOnly(a)
			if err == nil && o.Allow != nil {
				err = o.Allow(a)
			}
			return err
		}
	}
	if up.terms.Proxy != "" {
		eo.Proxy, _ = url.Parse(up.terms.Proxy) // checked when the file was read
	}
	if t := up.terms.TLS; t != nil {
		var err error
		if eo.TLS, err = t.config(o); err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
	}
	return eo, nil
}

func (t *tlsTerms) config(o *Options) (*tls.Config, error) {
	c := &tls.Config{ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := o.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("ca_file: no certificate in it")
		}
	}
	if t.CertFile != "" {
		cert, err := o.ReadFile(t.CertFile)
		if err != nil {
			return nil, fmt.Errorf("cert_file: %w", err)
		}
		key, err := o.ReadFile(t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("key_file: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("cert_file and key_file: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
