package contract

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/pawl-dev/pawl/evidence"
)

// awsTerms say how requests to an AWS service are signed (Signature Version 4). The
// signature covers the time, so it is made at each attempt and never stored.
type awsTerms struct {
	Service         string   `json:"service" jsonschema:"The name of the service in signatures, such as sqs."`
	Region          string   `json:"region" jsonschema:"The region, such as eu-central-1."`
	AccessKeyID     template `json:"access_key_id" jsonschema:"The id of the access key, by reference: ${env:AWS_ACCESS_KEY_ID}."`
	SecretAccessKey template `json:"secret_access_key" jsonschema:"The secret access key, by reference: ${env:AWS_SECRET_ACCESS_KEY}."`
	SessionToken    template `json:"session_token,omitempty" jsonschema:"The session token of temporary credentials, by reference."`
}

// awsSigner signs the requests of one upstream.
type awsSigner struct {
	service, region string
	id, secret      reference
	token           *reference
}

func (c *compiler) aws(path string, t *awsTerms) *awsSigner {
	if t == nil {
		return nil
	}
	one := func(name string, value template) *reference {
		if value == "" {
			return nil
		}
		parts, err := parseTemplate(string(value), inRequest, true)
		if err != nil || len(parts) != 1 || parts[0].ref == nil {
			c.fail(member(path, name), "a credential is never written into the file: put it into the environment or a file and write ${env:NAME} or ${file:/path}")
			return nil
		}
		return parts[0].ref
	}
	s := &awsSigner{service: t.Service, region: t.Region, token: one("session_token", t.SessionToken)}
	if id := one("access_key_id", t.AccessKeyID); id != nil {
		s.id = *id
	}
	if secret := one("secret_access_key", t.SecretAccessKey); secret != nil {
		s.secret = *secret
	}
	return s
}

// references are the credentials that the signer needs.
func (s *awsSigner) references() []reference {
	if s == nil {
		return nil
	}
	refs := []reference{s.id, s.secret}
	if s.token != nil {
		refs = append(refs, *s.token)
	}
	return refs
}

// sign adds the headers of a signature made now. Every other header must be there already.
func (s *awsSigner) sign(ctx context.Context, req *evidence.Request, v *vault) error {
	if s == nil {
		return nil
	}
	var creds aws.Credentials
	for _, want := range []struct {
		ref *reference
		to  *string
	}{{&s.id, &creds.AccessKeyID}, {&s.secret, &creds.SecretAccessKey}, {s.token, &creds.SessionToken}} {
		if want.ref == nil {
			continue
		}
		value, err := v.value(*want.ref)
		if err != nil {
			return fmt.Errorf("signature: %w", err)
		}
		*want.to = value
		req.Secrets = append(req.Secrets, value)
	}
	h, err := http.NewRequestWithContext(ctx, req.Method, req.URL, nil)
	if err != nil {
		return fmt.Errorf("signature: %w", errMessage)
	}
	h.Header = req.Header.Clone()
	h.ContentLength = int64(len(req.Body))
	digest := sha256.Sum256(req.Body)
	hash := hex.EncodeToString(digest[:])
	h.Header.Set("X-Amz-Content-Sha256", hash)
	if err := v4.NewSigner().SignHTTP(ctx, creds, h, hash, s.service, s.region, time.Now()); err != nil {
		return fmt.Errorf("signature: %w", err)
	}
	req.Header = h.Header
	return nil
}
