package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
)

// FeedOptions of NewFeed. Nil and zero fields mean the defaults.
type FeedOptions struct {
	// Buffer is how many events may wait for one reader before it is dropped; default 256.
	Buffer int
	// Keep is how many of the last events are kept for readers that come again; default 1024.
	Keep int
	// Look is the pause between two looks of Follow at the store; default 1 s.
	Look time.Duration
	// PerTenant bounds the readers of one tenant; default 16.
	PerTenant int
	// Heartbeat is the pause between two signs of life; default 15 s.
	Heartbeat time.Duration
	// Idle is how long a stream may go without an event; default 15 minutes.
	Idle time.Duration
	// WriteTime is how long one event may take to be written; default 10 s.
	WriteTime time.Duration
}

// Feed tells readers what one executor does, and with Follow what other processes do to the
// same store. Its readers never hold the executor up: one that is slow is
// dropped. All methods are safe for concurrent use.
type Feed struct {
	opts FeedOptions

	boot string // begins every id, so that one of an earlier process is known as such

	mu      sync.Mutex
	readers map[*subscriber]struct{}
	tenants map[string]int
	told    int64             // how many events there were
	kept    []event           // the last of them; the one numbered n is at n % Keep
	seen    map[pawl.ID]*seen // what Follow compares with; nil while nobody reads
}

// event is one that was told, and what says who may see it.
type event struct {
	seq  int64
	kind string
	data any
	of   pawl.Operation // its tenant, actor and contract
}

// subscriber is one reader. backlog is what it missed since it was here last, frames what
// happens from now on; frames is closed when the reader was too slow.
type subscriber struct {
	Principal
	backlog [][]byte
	frames  chan []byte
}

// NewFeed returns a feed without readers. Its Observer belongs into the options of the
// executor, the feed itself into those of the API.
func NewFeed(o *FeedOptions) *Feed {
	var boot [4]byte
	rand.Read(boot[:])
	f := &Feed{boot: hex.EncodeToString(boot[:]), readers: make(map[*subscriber]struct{}), tenants: make(map[string]int)}
	if o != nil {
		f.opts = *o
	}
	for _, n := range []struct {
		v  *int
		to int
	}{{&f.opts.Buffer, 256}, {&f.opts.Keep, 1024}, {&f.opts.PerTenant, 16}} {
		if *n.v <= 0 {
			*n.v = n.to
		}
	}
	for _, t := range []struct {
		v  *time.Duration
		to time.Duration
	}{{&f.opts.Look, time.Second}, {&f.opts.Heartbeat, 15 * time.Second}, {&f.opts.Idle, 15 * time.Minute}, {&f.opts.WriteTime, 10 * time.Second}} {
		if *t.v <= 0 {
			*t.v = t.to
		}
	}
	f.kept = make([]event, f.opts.Keep)
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

// Gap is the data of a gap event: what happened since the reader was here last is not known
// any more.
type Gap struct {
	Detail string `json:"detail"`
}

// End is the data of the last event of a stream that the server ends.
type End struct {
	Code   string `json:"code" enum:"slow,idle,stopping,unauthorized"`
	Detail string `json:"detail"`
}

// documented are the types of the events' data, which no route answers with.
var documented = []reflect.Type{reflect.TypeFor[Change](), reflect.TypeFor[Alarm](), reflect.TypeFor[Gap](), reflect.TypeFor[End]()}

// Observer is what tells the feed.
func (f *Feed) Observer() *pawl.Observer {
	return &pawl.Observer{
		Changed: func(_ context.Context, op *pawl.Operation, e *pawl.Entry) {
			f.tells(op)
			f.publish(op, "change", Change{Operation: summary(op), Event: e.Event, By: e.By, From: e.From, At: e.At.UTC()})
		},
		Alarm: func(_ context.Context, op *pawl.Operation, what pawl.Alarm) {
			f.publish(op, "alarm", Alarm{Operation: summary(op), Alarm: what})
		},
	}
}

// publish hands an event to everybody who may see the operation. It never waits.
func (f *Feed) publish(op *pawl.Operation, kind string, data any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told++
	e := &f.kept[f.told%int64(len(f.kept))]
	*e = event{seq: f.told, kind: kind, data: data, of: pawl.Operation{Intent: pawl.Intent{Tenant: op.Tenant, Actor: op.Actor, Contract: op.Contract}}}
	var encoded []byte
	for r := range f.readers {
		if !r.sees(op) {
			continue
		}
		if encoded == nil {
			encoded = f.encode(e)
		}
		select {
		case r.frames <- encoded:
		default:
			f.remove(r)
			close(r.frames)
		}
	}
}

// encode is the frame of an event, with the id by which a reader comes again.
func (f *Feed) encode(e *event) []byte {
	return append([]byte("id: "+f.boot+"-"+strconv.FormatInt(e.seq, 10)+"\n"), frame(e.kind, e.data)...)
}

// subscribe adds a reader, or returns nil where its tenant has as many as it may. last is the
// id of the event that it read last, empty where it was never here.
func (f *Feed) subscribe(p *Principal, last string) *subscriber {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tenants[p.Tenant] >= f.opts.PerTenant {
		return nil
	}
	r := &subscriber{Principal: *p, frames: make(chan []byte, f.opts.Buffer)}
	if last != "" {
		r.backlog = f.since(p, last)
	}
	f.readers[r] = struct{}{}
	f.tenants[p.Tenant]++
	return r
}

// since are the frames after the one that a reader read last, or one that says that they are
// not known.
func (f *Feed) since(p *Principal, last string) (frames [][]byte) {
	boot, number, _ := strings.Cut(last, "-")
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil || boot != f.boot || seq < 0 || seq > f.told || f.told-seq > int64(len(f.kept)) {
		return [][]byte{frame("gap", Gap{Detail: "what happened meanwhile is not known here any more: read the list"})}
	}
	for n := seq + 1; n <= f.told; n++ {
		if e := &f.kept[n%int64(len(f.kept))]; p.sees(&e.of) {
			frames = append(frames, f.encode(e))
		}
	}
	return frames
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
