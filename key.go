package pawl

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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

// Secret is what a tenant's keys are made with. An empty Value means a plain hash:
// then whoever knows a low-entropy identity can guess its key.
type Secret struct {
	ID    string
	Value []byte
}

// DeriveKey returns HMAC-SHA-256(secret, blob), or SHA-256(blob) where the secret is
// empty. The blob is the one Identification.Blob gives.
func DeriveKey(secret Secret, blob []byte) Key {
	if len(secret.Value) == 0 {
		return sha256.Sum256(blob)
	}
	mac := hmac.New(sha256.New, secret.Value)
	mac.Write(blob)
	return Key(mac.Sum(nil))
}
