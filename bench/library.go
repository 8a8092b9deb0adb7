package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/postgres"
	"github.com/pawl-dev/pawl/sqlite"
)

// library is pawl in the process of its caller.
type library struct {
	store    pawl.Store
	executor *pawl.Executor
	file     *contract.File // nil where the tool is a Go function
	database int            // the process of the store's server, if it has one
}

// goTool is the tool that does nothing, as a Go function with a usual contract.
func goTool() *pawl.Tool {
	c := pawl.Contract{
		Tool: toolName, Effect: "charge of {amount} {currency} on order {order_id}",
		Identity: []pawl.Field{pawl.Text("order_id"), pawl.Money("amount", "currency")}, Free: []string{"description", "metadata"},
	}
	return pawl.NewFunc(c, func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(toolResult), nil
	}, nil)
}

// storeFile is the name of the store in a contestant's folder.
const storeFile = "pawl.db"

// openStore opens the PostgreSQL database of an order, or an SQLite file where it has none.
func openStore(ctx context.Context, o *order) (pawl.Store, error) {
	if o.Database != "" {
		return postgres.Open(ctx, o.Database, nil)
	}
	return sqlite.Open(filepath.Join(o.Dir, storeFile), nil)
}

func openLibrary(ctx context.Context, o *order) (contestant, error) {
	store, err := openStore(ctx, o)
	if err != nil {
		return nil, err
	}
	l, err := startLibrary(store, nil, goTool(), nil)
	if err != nil {
		return nil, err
	}
	l.database = o.Postmaster
	return l, nil
}

// openRead is pawl with a tool of class read, beside which nothing is recorded.
func openRead(ctx context.Context, o *order) (contestant, error) {
	store, err := openStore(ctx, o)
	if err != nil {
		return nil, err
	}
	t := goTool()
	t.Contract = pawl.Contract{Tool: toolName, Class: pawl.Read}
	return startLibrary(store, nil, t, nil)
}

// openHTTPTool is pawl with a tool behind HTTP, whose provider does nothing.
func openHTTPTool(ctx context.Context, o *order) (contestant, error) {
	store, err := openStore(ctx, o)
	if err != nil {
		return nil, err
	}
	return startHTTPTool(store, o, nil)
}

// startHTTPTool starts an executor with the tool behind HTTP. It closes the store if it
// fails.
func startHTTPTool(store pawl.Store, o *order, opts *pawl.Options) (*library, error) {
	path, err := writeContract(o)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	file, err := contract.Load(path, nil)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	tools, err := file.Tools()
	if err != nil {
		file.Close()
		return nil, errors.Join(err, store.Close())
	}
	return startLibrary(store, file, &tools[0], opts)
}

func startLibrary(store pawl.Store, file *contract.File, tool *pawl.Tool, o *pawl.Options) (*library, error) {
	l := &library{store: store, executor: pawl.New(store, o), file: file}
	if err := l.executor.Register(tool); err != nil {
		return nil, errors.Join(err, l.close())
	}
	l.executor.Start()
	return l, nil
}

func (l *library) call(ctx context.Context, _ int, j *job) error {
	env, err := l.executor.Do(ctx, pawl.Call{Tool: toolName, Args: j.args, Run: j.run, Step: j.step})
	if err != nil {
		return err
	}
	if env.Status != pawl.Succeeded {
		return fmt.Errorf("got %s (%s), want %s", env.Status, env.Message, pawl.Succeeded)
	}
	return nil
}

func (l *library) team() team { return team{database: l.database} }

func (l *library) close() error {
	l.executor.Stop(context.Background())
	if l.file != nil {
		l.file.Close()
	}
	return l.store.Close()
}

// contractFile declares the tool behind HTTP; the store and the provider's URL are filled in.
const contractFile = `version: 1
store: %q
upstreams:
  provider: {url: "%s"}
tools:
  payments.charge:
    upstream: provider
    class: keyed
    effect: charge of {amount} {currency} on order {order_id}
    request: {method: POST, path: /v1/charges, body: args}
    identity: [order_id, {field: amount, rule: money(currency)}]
    free: [description, metadata]
    key: {carrier: header, name: Idempotency-Key}
    retention: 24h
    probe:
      request: {path: /v1/charges, query: {key: key}}
      by: key
      match: response.body.data.filter(c, c.idempotency_key == key)
      complete: "!response.body.has_more"
      lag: 2s
`

// writeContract writes the contract file into the contestant's folder.
func writeContract(o *order) (string, error) {
	store := storeFile
	if o.Database != "" {
		store = o.Database
	}
	path := filepath.Join(o.Dir, "pawl.yaml")
	return path, os.WriteFile(path, fmt.Appendf(nil, contractFile, store, o.Provider), 0o600)
}
