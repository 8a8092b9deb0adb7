package server

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/notify"
)

// TestTwoDaemonsTellAnOperatorOnce, and the envelope says so once it is true.
func TestTwoDaemonsTellAnOperatorOnce(t *testing.T) {
	t.Parallel()
	bodies := make(chan notify.Message, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m notify.Message
		raw, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(raw, &m)
		}
		if err != nil {
			t.Errorf("body: %v", err)
		}
		bodies <- m
	}))
	t.Cleanup(hook.Close)
	o := write(t, strings.Replace(sound, "upstreams:", "notify: {url: \""+hook.URL+"\", secret: \"${env:HOOK}\"}\nupstreams:", 1)+"    confirm: always\n")
	o.Contract = &contract.Options{Getenv: func(string) (string, bool) {
		return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32)), true
	}}
	s, other := openTest(t, o), openTest(t, o)
	s.Start()
	other.Start()
	call := pawl.Call{Tool: "refund", Run: "r", Args: []byte(`{"order_id":"A-1"}`)}
	env, err := s.Executor().Do(t.Context(), call)
	if err != nil || env.Status != pawl.Prepared {
		t.Fatalf("got %s, %v; want PREPARED", env.Status, err)
	}
	select {
	case m := <-bodies:
		if m.Type != pawl.ReviewOpened || m.Data.Operation != env.OperationID || m.Data.Reason != pawl.ReasonApprovalNeeded || m.Data.Expires.IsZero() {
			t.Errorf("got %+v, want that the call waits for a yes", m)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("nobody was told")
	}
	id, err := pawl.ParseID(env.OperationID)
	if err != nil {
		t.Fatal(err)
	}
	const words = "An operator has been notified."
	for end := time.Now().Add(20 * time.Second); ; {
		if env, err = other.Executor().Status(t.Context(), "", "", id); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(env.Message, words) || time.Now().After(end) {
			break
		}
	}
	if !strings.Contains(env.Message, words) {
		t.Errorf("got message %q, want that an operator was notified", env.Message)
	}
	if len(bodies) != 0 {
		t.Errorf("got %d webhooks more, want one", len(bodies))
	}
}

// TestNotifyWithASecretThatIsNone: nothing opens, and the text is not repeated.
func TestNotifyWithASecretThatIsNone(t *testing.T) {
	t.Parallel()
	o := write(t, strings.Replace(sound, "upstreams:", "notify: {url: \"https://hooks.example.com\", secret: \"${env:HOOK}\"}\nupstreams:", 1))
	o.Contract = &contract.Options{Getenv: func(string) (string, bool) { return "hush-hush-hush-hush", true }}
	_, err := Open(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "Secret") || strings.Contains(err.Error(), "hush") {
		t.Errorf("got %v, want the secret refused without being repeated", err)
	}
}
