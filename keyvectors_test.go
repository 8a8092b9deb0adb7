package pawl

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
)

// TestKeysAgreeWithSecondImplementation reads the cases that scripts/keyvectors.py wrote
// and derives every key from the arguments again.
func TestKeysAgreeWithSecondImplementation(t *testing.T) {
	t.Parallel()
	name := os.Getenv("PAWL_KEYVECTORS")
	if name == "" {
		t.Skip("PAWL_KEYVECTORS is not set: python3 scripts/keyvectors.py --seed 1 --n 1000 > FILE, and set it to FILE")
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, MaxJSON)
	n := 0
	for lines.Scan() {
		n++
		var c struct {
			Secret string
			Call   struct {
				Tool, Tenant, Run, Step string
				Gen                     int
			}
			Args     string
			Identity []Field
			Key      Key
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		secret, err := hex.DecodeString(c.Secret)
		if err != nil {
			t.Fatalf("line %d: secret: %v", n, err)
		}
		blob, err := Blob{
			ID: identity(t, c.Args, c.Identity...), Tool: c.Call.Tool, Tenant: c.Call.Tenant,
			Run: c.Call.Run, Step: c.Call.Step, Gen: c.Call.Gen,
		}.Bytes()
		if err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		if got := DeriveKey(Secret{Value: secret}, blob); got != c.Key {
			t.Errorf("line %d: got key %s from blob %s, want %s\n%s", n, got, blob, c.Key, lines.Bytes())
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		t.Errorf("got no case in %s, want some", name)
	}
}
