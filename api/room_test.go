package api

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
)

// TestPerTenant: a tenant's requests beyond its bound are turned away before anything is
// read, and those of others are not.
func TestPerTenant(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	do := func(context.Context, nothing) (nothing, error) {
		entered <- struct{}{}
		<-leave
		return nothing{}, nil
	}
	s := open(t, func(set *setting) {
		set.api.Authenticate, set.api.PerTenant = people().authenticate, 2
		set.tools = []*pawl.Tool{pawl.NewFunc(pawl.Contract{Tool: "do", Identity: []pawl.Field{pawl.Text("id")}}, do, nil)}
	})
	var calls sync.WaitGroup
	for i := range 2 {
		calls.Go(func() { s.as("ana").call(t, fmt.Sprintf(`{"tool":"do","run":"r","args":{"id":"%d"}}`, i)) })
		<-entered
	}
	busy := s.as("ben").do(t, "POST", "/v1/calls", `{"tool":"do","run":"r","args":{"id":"9"}}`)
	busy.wants(t, 429, CodeTooMany)
	if busy.header.Get("Retry-After") == "" {
		t.Error("the answer does not say when to come again")
	}
	s.as("eve").do(t, "GET", "/v1/tools", "").into(t, 200, &struct{}{})
	s.do(t, "GET", "/healthz", "").into(t, 200, &struct{}{})
	close(leave)
	calls.Wait()
	s.as("ben").do(t, "GET", "/v1/tools", "").into(t, 200, &struct{}{})
}

// TestLargeBodies: reading takes many times a body's size, so only a few large ones are
// worked on at a time, and they keep nobody from small ones.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	do := func(context.Context, nothing) (nothing, error) {
		entered <- struct{}{}
		<-leave
		return nothing{}, nil
	}
	s := open(t, func(set *setting) {
		k := people()
		k.of["dan"] = Principal{Tenant: "third", Scopes: Scopes}
		set.api.Authenticate = k.authenticate
		set.tools = []*pawl.Tool{pawl.NewFunc(pawl.Contract{Tool: "do", Identity: []pawl.Field{pawl.Text("id")}}, do, nil)}
	})
	large := func(id string) string {
		return fmt.Sprintf(`{"tool":"do","run":"r","args":{"id":%q,"x":%q}}`, id, strings.Repeat("x", smallBody))
	}
	var calls sync.WaitGroup
	for _, c := range [][2]string{{"ana", "1"}, {"ben", "2"}, {"eve", "3"}, {"eve", "4"}} {
		calls.Go(func() { s.as(c[0]).call(t, large(c[1])) })
		<-entered
	}
	s.as("ana").do(t, "POST", "/v1/calls", large("5")).wants(t, 429, CodeTooMany) // of its tenant
	s.as("dan").do(t, "POST", "/v1/calls", large("5")).wants(t, 429, CodeTooMany) // of all
	s.as("dan").call(t, `{"tool":"none"}`)
	close(leave)
	calls.Wait()
	calls.Go(func() { <-entered })
	s.as("dan").call(t, large("5"))
	calls.Wait()
}
