package api

import (
	"context"
	"encoding/json"
	"reflect"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
)

// FeedOptions of NewFeed. Nil and zero fields mean the defaults.
type FeedOptions struct {
	// Buffer is how many events may wait for one reader before it is dropped; default 256.
	Buffer int
	// PerTenant bounds the readers of one tenant; default 16.
	PerTenant int
	// Heartbeat is the pause between two signs of life; default 15 s.
	Heartbeat time.Duration
	// Idle is how long a stream may go without an event; default 15 minutes.
	Idle time.Duration
	// WriteTime is how long one event may take to be written; default 10 s.
	WriteTime time.Duration
}

// Feed tells readers what one executor does. Changes that other processes make to the
// same store are not in it. Its readers never hold the executor up: one that is slow is
// dropped. All methods are safe for concurrent use.
type Feed struct {
	opts FeedOptions

	mu      sync.Mutex
	readers map[*subscriber]struct{}
	tenants map[string]int
}

// subscriber is one reader. frames is closed when the reader was too slow.
type subscriber struct {
	Principal
	frames chan []byte
}

// NewFeed returns a feed without readers. Its Observer belongs into the options of the
// executor, the feed itself into those of the API.
func NewFeed(o *FeedOptions) *Feed {
	f := &Feed{readers: make(map[*subscriber]struct{}), tenants: make(map[string]int)}
	if o != nil {
		f.opts = *o
	}
	for _, n := range []struct {
		v  *int
		to int
	}{{&f.opts.Buffer, 256}, {&f.opts.PerTenant, 16}} {
		if *n.v <= 0 {
			*n.v = n.to
		}
	}
	for _, t := range []struct {
		v  *time.Duration
		to time.Duration
	}{{&f.opts.Heartbeat, 15 * time.Second}, {&f.opts.Idle, 15 * time.Minute}, {&f.opts.WriteTime, 10 * time.Second}} {
		if *t.v <= 0 {
			*t.v = t.to
		}
	}
	return f
}

// Change is the data of a change event: the operation as it is now, and its newest entry
// of history without the evidence.
type Change struct {
	Operation Operation   `json:"operation"`
	Event     string      `json:"event" doc:"What happened."`
	By        string      `json:"by" doc:"Who or what made the change."`
	From      pawl.Status `json:"from,omitempty"`
	At        time.Time   `json:"at"`
}

// Alarm is the data of an alarm event.
type Alarm struct {
	Operation Operation  `json:"operation"`
	Alarm     pawl.Alarm `json:"alarm"`
}

// End is the data of the last event of a stream that the server ends.
type End struct {
	Code   string `json:"code" enum:"slow,idle,stopping,unauthorized"`
	Detail string `json:"detail"`
}

// documented are the types of the events' data, which no route answers with.
var documented = []reflect.Type{reflect.TypeFor[Change](), reflect.TypeFor[Alarm](), reflect.TypeFor[End]()}

// Observer is what tells the feed.
func (f *Feed) Observer() *pawl.Observer {
	return &pawl.Observer{
		Changed: func(_ context.Context, op *pawl.Operation, e *pawl.Entry) {
			f.publish(op, func() []byte {
				return frame("change", Change{Operation: summary(op), Event: e.Event, By: e.By, From: e.From, At: e.At.UTC()})
			})
		},
		Alarm: func(_ context.Context, op *pawl.Operation, what pawl.Alarm) {
			f.publish(op, func() []byte { return frame("alarm", Alarm{Operation: summary(op), Alarm: what}) })
		},
	}
}

// publish hands an event to everybody who may see the operation. It never waits.
func (f *Feed) publish(op *pawl.Operation, encode func() []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var event []byte
	for r := range f.readers {
		if !r.sees(op) {
			continue
		}
		if event == nil {
			event = encode()
		}
		select {
		case r.frames <- event:
		default:
			f.remove(r)
			close(r.frames)
		}
	}
}

// subscribe adds a reader, or returns nil where its tenant has as many as it may.
func (f *Feed) subscribe(p *Principal) *subscriber {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tenants[p.Tenant] >= f.opts.PerTenant {
		return nil
	}
	r := &subscriber{Principal: *p, frames: make(chan []byte, f.opts.Buffer)}
	f.readers[r] = struct{}{}
	f.tenants[p.Tenant]++
	return r
}

func (f *Feed) unsubscribe(r *subscriber) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remove(r)
}

// remove forgets a reader, once.
func (f *Feed) remove(r *subscriber) {
	if _, there := f.readers[r]; !there {
		return
	}
	delete(f.readers, r)
	if f.tenants[r.Tenant]--; f.tenants[r.Tenant] == 0 {
		delete(f.tenants, r.Tenant)
	}
}

// frame is one server-sent event.
func frame(event string, data any) []byte {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err) // these types are plain data
	}
	return append(append([]byte("event: "+event+"\ndata: "), raw...), "\n\n"...)
}
