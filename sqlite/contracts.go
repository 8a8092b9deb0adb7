package sqlite

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/pawl-dev/pawl"
)

// maxContracts bounds the contracts kept in memory.
const maxContracts = 256

// contracts keeps in memory what the table contracts holds: a contract that is here is
// durable.
type contracts struct {
	mu     sync.Mutex
	byHash map[string]*pawl.Contract
}

func (c *contracts) get(hash string) *pawl.Contract {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byHash[hash]
}

func (c *contracts) put(hash string, contract *pawl.Contract) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byHash == nil || len(c.byHash) == maxContracts {
		c.byHash = make(map[string]*pawl.Contract)
	}
	c.byHash[hash] = contract
}

// unsaved returns the JSON of an operation's contract if it is not known to be stored.
func (c *contracts) unsaved(op *pawl.Operation) ([]byte, error) {
	switch {
	case op.ContractHash == "" && op.Contract == nil:
		return nil, nil
	case op.Contract == nil:
		return nil, errors.New("operation has a contract hash and no contract")
	case c.get(op.ContractHash) != nil:
		return nil, nil
	}
	body, err := json.Marshal(op.Contract)
	if err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	if got := contractHash(body); got != op.ContractHash {
		return nil, fmt.Errorf("contract has hash %s, the operation says %s", got, op.ContractHash)
	}
	return body, nil
}

// saved notes that an operation's contract is durable.
func (c *contracts) saved(op *pawl.Operation) {
	if op.Contract != nil && c.get(op.ContractHash) == nil {
		pinned := *op.Contract
		c.put(op.ContractHash, &pinned)
	}
}

// contractHash is pawl.Contract.Hash over the JSON.
func contractHash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
