package pawl

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Key is the root of an idempotency key: 256 bits, from which each provider's form is
// encoded. The model never sees or chooses it.
type Key [32]byte

// String is the form most providers get: the first 32 hex digits.
func (k Key) String() string { return hex.EncodeToString(k[:16]) }

// MarshalText gives all 64 hex digits.
func (k Key) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(k[:])), nil }

// UnmarshalText reads 64 hex digits.
func (k *Key) UnmarshalText(b []byte) error {
	if len(b) != 64 {
		return fmt.Errorf("key: want 64 hex digits, got %d characters", len(b))
	}
	_, err := hex.Decode(k[:], b)
	return err
}

// KeyEncoding names a form in which a key goes outward. The zero value is KeyHex.
type KeyEncoding string

const (
	KeyHex         KeyEncoding = "hex"         // 32 hex digits: the first 128 bits
	KeyHex64       KeyEncoding = "hex64"       // 64 hex digits: all 256 bits
	KeyUUID        KeyEncoding = "uuid"        // 36 characters: the first 128 bits but six, as a UUID of version 8
	KeyBase62      KeyEncoding = "base62"      // 22 of 0-9, A-Z, a-z: the first 128 bits
	KeyBase32Hex   KeyEncoding = "base32hex"   // 52 of 0-9, a-v: all 256 bits
	KeyBase32Hex26 KeyEncoding = "base32hex26" // 26 of 0-9, a-v: the first 128 bits
)

// Encode gives the key in one of its outward forms. Each form of a key always has the
// same length.
func (k Key) Encode(e KeyEncoding) (string, error) {
	switch e {
	case KeyHex, "":
		return k.String(), nil
	case KeyHex64:
		return hex.EncodeToString(k[:]), nil
	case KeyUUID:
		k[6] = k[6]&0x0F | 0x80 // version 8: the bits are our own
		k[8] = k[8]&0x3F | 0x80 // the variant of RFC 9562
		s := k.String()
		return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:], nil
	case KeyBase62:
		return k.base62(), nil
	case KeyBase32Hex:
		return base32Hex(k[:]), nil
	case KeyBase32Hex26:
		return base32Hex(k[:16]), nil
	}
	return "", fmt.Errorf("key: there is no encoding %q", string(e))
}

// base62 writes the first 128 bits as one number, most significant digit first.
func (k Key) base62() string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	var out [22]byte // 62^22 > 2^128
	n, base, digit := new(big.Int).SetBytes(k[:16]), big.NewInt(62), new(big.Int)
	for i := len(out) - 1; i >= 0; i-- {
		n.DivMod(n, base, digit)
		out[i] = digits[digit.Int64()]
	}
	return string(out[:])
}

func base32Hex(b []byte) string {
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

// Secret is what a tenant's keys are made with. An empty Value means a plain hash:
// then whoever knows a low-entropy identity can guess its key.
type Secret struct {
	ID    string
	Value []byte
}

// DeriveKey returns HMAC-SHA-256(secret, blob), or SHA-256(blob) where the secret is
// empty. The blob is what Blob.Bytes gives.
func DeriveKey(secret Secret, blob []byte) Key {
	if len(secret.Value) == 0 {
		return sha256.Sum256(blob)
	}
	mac := hmac.New(sha256.New, secret.Value)
	mac.Write(blob)
	return Key(mac.Sum(nil))
}

// Blob is what one key stands for.
type Blob struct {
	// ID holds the canonical identity fields as Field.Canonical gave them; nil is none.
	ID   map[string]any
	Tool string
	// Tenant may be empty.
	Tenant string
	// Run is the run under the scopes step and run, the parent's id under parent_run, and
	// empty under business.
	Run string
	// Step is empty under every scope but step.
	Step string
	// Gen counts the generations of the identity, from 0.
	Gen int
	// id is ID as canonical JSON, where that has been made.
	id []byte
}

// Bytes returns the canonical JSON of what the key is derived from:
//
//	{"gen":1,"id":{...},"run":"run-7","step":"3","tenant":"acme","tool":"issue_refund"}
//
// An empty run, step or tenant and generation 0 are left out. A step without a run, a
// negative generation and a blob without a tool are errors.
func (b Blob) Bytes() ([]byte, error) {
	switch {
	case b.Tool == "":
		return nil, errors.New("key blob: no tool")
	case b.Step != "" && b.Run == "":
		return nil, errors.New("key blob: a step without a run")
	case b.Gen < 0:
		return nil, fmt.Errorf("key blob: generation %d", b.Gen)
	}
	id := b.id
	if id == nil {
		var err error
		if id, err = AppendJSON(nil, b.ID); err != nil {
			return nil, fmt.Errorf("key blob: identity: %w", err)
		}
	}
	out := make([]byte, 0, 96+len(id)+len(b.Run)+len(b.Step)+len(b.Tenant)+len(b.Tool))
	out = append(out, '{')
	if b.Gen > 0 {
		out = append(out, `"gen":`...)
		out = strconv.AppendInt(out, int64(b.Gen), 10)
		out = append(out, ',')
	}
	out = append(out, `"id":`...)
	out = append(out, id...)
	for _, member := range []struct{ name, value string }{
		{"run", b.Run}, {"step", b.Step}, {"tenant", b.Tenant}, {"tool", b.Tool},
	} {
		if member.value == "" {
			continue
		}
		out = append(out, ',', '"')
		out = append(out, member.name...)
		out = append(out, '"', ':')
		var wrong *JSONError
		if out, wrong = appendText(out, member.value); wrong != nil {
			return nil, fmt.Errorf("key blob: %s: %w", member.name, wrong)
		}
	}
	return append(out, '}'), nil
}
