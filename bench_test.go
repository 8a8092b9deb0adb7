package pawl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// refundFunc is a no-op tool with a typical contract.
func refundFunc() *pawl.Tool {
	c := pawl.Contract{Tool: "refund", Identity: []pawl.Field{pawl.Text("order_id"), pawl.Money("amount", "currency")}, Free: []string{"description"}}
	return pawl.NewFunc(c, func(context.Context, json.RawMessage) (map[string]any, error) {
		return map[string]any{"id": "re_1", "status": "succeeded"}, nil
	}, nil)
}

func refundArguments(n int64) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"order_id":"A-%d","amount":49.90,"currency":"EUR","description":"monthly plan for team seats, prorated from the 12th, invoice to be sent by e-mail to the billing contact","metadata":{"agent":"billing-assistant","turn":"5"},"capture":true}`, n))
}

// BenchmarkDo is one whole call less the disk: identity, key, rules, envelope.
func BenchmarkDo(b *testing.B) {
	ex := pawl.New(storetest.NewMemory(), nil)
	defer ex.Stop(context.Background())
	if err := ex.Register(refundFunc()); err != nil {
		b.Fatal(err)
	}
	var n atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			env, err := ex.Do(context.Background(), pawl.Call{Tool: "refund", Run: "run-1", Step: "1", Args: refundArguments(n.Add(1))})
			if err != nil || env.Status != pawl.Succeeded {
				b.Fatalf("got %s, %v", env.Status, err)
			}
		}
	})
}

// BenchmarkReplay is a repeat answered from the record.
func BenchmarkReplay(b *testing.B) {
	ex := pawl.New(storetest.NewMemory(), nil)
	defer ex.Stop(context.Background())
	if err := ex.Register(refundFunc()); err != nil {
		b.Fatal(err)
	}
	args := refundArguments(1)
	b.ReportAllocs()
	for b.Loop() {
		if env, err := ex.Do(context.Background(), pawl.Call{Tool: "refund", Run: "run-1", Step: "1", Args: args}); err != nil || env.Status != pawl.Succeeded {
			b.Fatalf("got %s, %v", env.Status, err)
		}
	}
}

// BenchmarkRead is a tool without effects, beside which nothing is recorded.
func BenchmarkRead(b *testing.B) {
	ex := pawl.New(storetest.NewMemory(), nil)
	defer ex.Stop(context.Background())
	read := refundFunc()
	read.Contract = pawl.Contract{Tool: "refund", Class: pawl.Read}
	if err := ex.Register(read); err != nil {
		b.Fatal(err)
	}
	args := refundArguments(1)
	b.ReportAllocs()
	for b.Loop() {
		if env, err := ex.Do(context.Background(), pawl.Call{Tool: "refund", Args: args}); err != nil || env.Status != pawl.Succeeded {
			b.Fatalf("got %s, %v", env.Status, err)
		}
	}
}
