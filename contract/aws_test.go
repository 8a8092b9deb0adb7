package contract

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// TestAWSSignature checks a signature as AWS does, from its documented steps: canonical
// request, string to sign, key derivation.
func TestAWSSignature(t *testing.T) {
	t.Parallel()
	p := answering(t, 200, `{"MessageId":"m-1"}`)
	env := map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE12345", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
	f := mustParse(t, `version: 1
upstreams:
  sqs:
    url: `+p.URL+`
    aws: {service: sqs, region: eu-central-1, access_key_id: "${env:AWS_ACCESS_KEY_ID}", secret_access_key: "${env:AWS_SECRET_ACCESS_KEY}"}
tools:
  send:
    use: aws/sqs.SendMessage.fifo
    upstream: sqs
`, &Options{Getenv: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
	t.Cleanup(f.Close)
	tools, err := f.Tools()
	if err != nil {
		t.Fatal(err)
	}
	op := begin(t, tools[0], `{"queue_url":"https://sqs/q.fifo","message_group_id":"g","message_body":"hello","reference":"r-1"}`)
	for name, secret := range env {
		if strings.Contains(string(op.Request), secret) {
			t.Errorf("the stored request holds %s", name)
		}
	}
	if ev := send(t, tools[0], op); ev.Class != pawl.ClassSucceeded {
		t.Fatalf("got %s %s %s, want SUCCEEDED", ev.Class, ev.Proof, ev.Error)
	}
	got := p.last(t)
	scope, signed, signature := authorization(t, got.Header.Get("Authorization"))
	var canonical strings.Builder
	canonical.WriteString(got.Method + "\n/\n\n")
	for _, name := range strings.Split(signed, ";") {
		value := got.Header.Get(name)
		switch name {
		case "host":
			value = got.Host
		case "content-length":
			value = strconv.Itoa(len(got.body))
		}
		canonical.WriteString(name + ":" + strings.TrimSpace(value) + "\n")
	}
	canonical.WriteString("\n" + signed + "\n" + digest(got.body))
	for _, name := range []string{"host", "x-amz-date", "x-amz-target"} {
		if !slices.Contains(strings.Split(signed, ";"), name) {
			t.Errorf("header %s is not signed", name)
		}
	}
	parts := strings.Split(scope, "/") // day, region, service, aws4_request
	key := []byte("AWS4" + env["AWS_SECRET_ACCESS_KEY"])
	for _, part := range parts {
		key = mac(key, part)
	}
	want := hex.EncodeToString(mac(key, "AWS4-HMAC-SHA256\n"+got.Header.Get("X-Amz-Date")+"\n"+scope+"\n"+digest(canonical.String())))
	if signature != want {
		t.Errorf("got signature %s, want %s over\n%s", signature, want, canonical.String())
	}
}

// authorization splits the header into the credential's scope, the signed headers and the
// signature.
func authorization(t *testing.T, header string) (scope, signed, signature string) {
	t.Helper()
	fields := map[string]string{}
	for _, f := range strings.Split(strings.TrimPrefix(header, "AWS4-HMAC-SHA256 "), ", ") {
		name, value, _ := strings.Cut(f, "=")
		fields[name] = value
	}
	_, scope, ok := strings.Cut(fields["Credential"], "/")
	if !ok {
		t.Fatalf("got Authorization %q, want a credential with its scope", header)
	}
	return scope, fields["SignedHeaders"], fields["Signature"]
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
