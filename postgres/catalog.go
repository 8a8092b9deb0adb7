package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
)

const (
	maxContracts = 256     // kept in memory
	maxLanes     = 1 << 14 // remembered as stored
)

// catalog remembers which contracts and lanes are stored, so that they are sent once, and
// keeps contracts in memory.
type catalog struct {
	mu        sync.Mutex
	contracts map[string]*pawl.Contract
	stored    map[string]bool // contracts by hash
	lanes     map[[16]byte]bool
	runs      map[[16]byte]bool
}

// forget makes everything be stored again that is used again.
func (c *catalog) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored, c.lanes, c.runs = map[string]bool{}, map[[16]byte]bool{}, map[[16]byte]bool{}
}

func (c *catalog) get(hash string) *pawl.Contract {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.contracts[hash]
}

func (c *catalog) put(hash string, contract *pawl.Contract) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.contracts == nil || len(c.contracts) == maxContracts {
		c.contracts = make(map[string]*pawl.Contract)
	}
	c.contracts[hash] = contract
}

// unsaved returns the parameters of what an operation needs that may not be stored yet.
func (c *catalog) unsaved(op *pawl.Operation, r *row) (contract, lane *tuple, err error) {
	c.mu.Lock()
	contractKnown, laneKnown := c.stored[op.ContractHash], c.lanes[r.lane]
	c.mu.Unlock()
	if !laneKnown {
		lane = newTuple(len(laneFields))
		lane.uuid(r.lane)
		lane.name(r.tenant)
		lane.name(r.tool)
	}
	switch {
	case op.ContractHash == "" && op.Contract == nil, op.Contract != nil && contractKnown:
		return nil, lane, nil
	case op.Contract == nil:
		return nil, nil, errors.New("operation has a contract hash and no contract")
	}
	body, err := json.Marshal(op.Contract)
	if err != nil {
		return nil, nil, fmt.Errorf("contract: %w", err)
	}
	if got := contractHash(body); got != op.ContractHash {
		return nil, nil, fmt.Errorf("contract has hash %s, the operation says %s", got, op.ContractHash)
	}
	contract = newTuple(len(contractFields))
	contract.name(op.ContractHash)
	contract.document(body)
	return contract, lane, nil
}

// saved notes that what an operation needs is stored.
func (c *catalog) saved(op *pawl.Operation, r *row) {
	if op.Contract != nil && c.get(op.ContractHash) == nil {
		pinned := *op.Contract
		c.put(op.ContractHash, &pinned)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.lanes) == maxLanes {
		clear(c.lanes)
	}
	if len(c.stored) == maxLanes {
		clear(c.stored)
	}
	c.lanes[r.lane] = true
	if op.Contract != nil {
		c.stored[op.ContractHash] = true
	}
}

func (c *catalog) knowsRun(id [16]byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs[id]
}

// savedRun notes that there is a record of a run.
func (c *catalog) savedRun(id [16]byte) {
	if !claimed(id) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.runs) == maxLanes {
		clear(c.runs)
	}
	c.runs[id] = true
}

// contract finds a contract by its hash, and checks that it is the one.
func (db *DB) contract(ctx context.Context, hash string) (*pawl.Contract, error) {
	if c := db.catalog.get(hash); c != nil {
		return c, nil
	}
	t := newTuple(1)
	t.name(hash)
	var body []byte
	err := db.read(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		found, err := query(ctx, c, ask(db.sql.contract, contractFields[:1], t))
		if err == nil && len(found[0].rows) == 1 {
			body = found[0].rows[0][0]
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	c := new(pawl.Contract)
	if contractHash(body) != hash {
		return nil, fmt.Errorf("postgres: contract %s: %w", hash, pawl.ErrCorrupt)
	}
	if err := json.Unmarshal(body, c); err != nil {
		return nil, fmt.Errorf("postgres: contract %s: %w: %w", hash, pawl.ErrCorrupt, err)
	}
	db.catalog.put(hash, c)
	return c, nil
}

// contractHash is pawl.Contract.Hash over the JSON.
func contractHash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
