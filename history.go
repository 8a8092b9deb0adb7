package pawl

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
)

// EncodeEntry gives the bytes of an entry that stores keep and the chain covers.
func EncodeEntry(e *Entry) ([]byte, error) { return AppendEntry(make([]byte, 0, e.size()), e) }

// size is about what an entry has in bytes, for most.
func (e *Entry) size() int {
	n := 192
	if e.Evidence != nil {
		n += 256 + 2*len(e.Evidence.Body) + len(e.Evidence.Result)
	}
	return n
}

// ChainHash links an entry to the one before it: SHA-256(previous hash, entry bytes).
// The first entry's previous hash is empty.
func ChainHash(prev, entry []byte) []byte {
	b := make([]byte, 0, 1024)
	sum := sha256.Sum256(append(append(b, prev...), entry...))
	return sum[:]
}

// DecodeHistory reads stored entries, oldest first, and checks that they are numbered
// from 1 without a gap and end in the given chain hash. Otherwise it returns ErrCorrupt.
func DecodeHistory(stored [][]byte, chain []byte) ([]Entry, error) {
	entries := make([]Entry, len(stored))
	var hash []byte
	for i, raw := range stored {
		if err := json.Unmarshal(raw, &entries[i]); err != nil {
			return nil, fmt.Errorf("history entry %d: %w", i+1, ErrCorrupt)
		}
		if entries[i].Seq != int64(i+1) {
			return nil, fmt.Errorf("history entry %d is numbered %d: %w", i+1, entries[i].Seq, ErrCorrupt)
		}
		hash = ChainHash(hash, raw)
	}
	if !bytes.Equal(hash, chain) {
		return nil, fmt.Errorf("history does not end in the operation's hash: %w", ErrCorrupt)
	}
	return entries, nil
}
