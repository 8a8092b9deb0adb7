package sqlite

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

var long = flag.Bool("long", false, "run as many rounds as a release needs")

// disk is a file system that can lose its power. For each file it keeps what a sync made
// durable and what was written since; a power cut leaves the durable bytes and, of each
// write since, an arbitrary part in sectors.
type disk struct {
	vfs.VFSFilename
	mu     sync.Mutex
	files  map[string]*platter
	writes int
	cutAt  int // the write at which the power is cut; 0 is never
	dead   bool
	cut    func()
}

type platter struct {
	durable []byte
	pending []change
}

// change is a write, or a truncation where data is nil.
type change struct {
	at   int64
	data []byte
}

const sector = 512

func newDisk() *disk {
	return &disk{VFSFilename: osFS(), files: map[string]*platter{}}
}

func (d *disk) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := d.VFSFilename.OpenFilename(name, flags)
	if err != nil || flags&(vfs.OPEN_MAIN_DB|vfs.OPEN_WAL) == 0 {
		return f, flags, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.files[name.String()]
	if p == nil {
		p = &platter{}
		if p.durable, err = os.ReadFile(name.String()); err != nil {
			return nil, flags, err
		}
		d.files[name.String()] = p
	}
	return &diskFile{wrapped{f}, d, p}, flags, nil
}

// step counts a write and cuts the power when it is time.
func (d *disk) step() error {
	if d.writes++; d.writes == d.cutAt && !d.dead {
		d.cut()
		d.dead = true
	}
	if d.dead {
		return sqlite3.IOERR
	}
	return nil
}

// remains writes what a power cut leaves into a folder.
func (d *disk) remains(dir string, r *rand.Rand) error {
	for name, p := range d.files {
		data := append([]byte{}, p.durable...)
		for _, c := range p.pending {
			switch {
			case c.data == nil:
				if r.IntN(2) == 0 {
					data = resize(data, c.at)
				}
			case r.IntN(4) > 0: // else lost as a whole
				for from := 0; from < len(c.data); {
					to := min(len(c.data), from+sector-int(c.at+int64(from))%sector)
					if r.IntN(8) > 0 {
						data = put(data, c.at+int64(from), c.data[from:to])
					}
					from = to
				}
			}
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func resize(b []byte, n int64) []byte {
	if n <= int64(len(b)) {
		return b[:n]
	}
	return append(b, make([]byte, n-int64(len(b)))...)
}

func put(b []byte, at int64, data []byte) []byte {
	b = resize(b, max(int64(len(b)), at+int64(len(data))))
	copy(b[at:], data)
	return b
}

type diskFile struct {
	wrapped
	disk *disk
	p    *platter
}

func (f *diskFile) WriteAt(b []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.step(); err != nil {
		return 0, err
	}
	f.p.pending = append(f.p.pending, change{at, append([]byte{}, b...)})
	return f.File.WriteAt(b, at)
}

func (f *diskFile) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.step(); err != nil {
		return err
	}
	f.p.pending = append(f.p.pending, change{at: size})
	return f.File.Truncate(size)
}

func (f *diskFile) Sync(vfs.SyncFlag) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.step(); err != nil {
		return err
	}
	for _, c := range f.p.pending {
		if c.data == nil {
			f.p.durable = resize(f.p.durable, c.at)
		} else {
			f.p.durable = put(f.p.durable, c.at, c.data)
		}
	}
	f.p.pending = nil
	return nil
}

// promise is what was acknowledged of one operation.
type promise struct {
	id      pawl.ID
	version int64
}

// cutPower runs callers until the power is cut, opens what is left, and returns the
// number of acknowledged changes and of those that are gone.
func cutPower(t *testing.T, seed uint64, synchronous string) (acknowledged, lost int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	d := newDisk()
	o := small()
	o.vfs, o.synchronous = register(t, d), synchronous
	db, err := Open(newPath(t), o)
	if err != nil {
		t.Fatal(err)
	}
	after := t.TempDir()
	d.mu.Lock()
	d.cutAt = d.writes + 20 + r.IntN(3000)
	d.cut = func() {
		if err := d.remains(after, r); err != nil {
			t.Error(err)
		}
	}
	d.mu.Unlock()
	var mu sync.Mutex
	var promises []promise
	promised := func(p promise) {
		mu.Lock()
		defer mu.Unlock()
		promises = append(promises, p)
	}
	var wg sync.WaitGroup
	for caller := range 6 {
		wg.Go(func() {
			for n := 0; ; n++ {
				op, first := storetest.Op(storetest.Seed{Tool: "refund", Run: fmt.Sprint(caller), Identity: fmt.Sprint(n)})
				if _, err := db.Begin(t.Context(), op, first); err != nil {
					if !errors.Is(err, pawl.ErrStoreFailed) {
						t.Errorf("begin: got %v, want %v", err, pawl.ErrStoreFailed)
					}
					return
				}
				promised(promise{op.ID, 1})
				if db.Apply(t.Context(), storetest.Move(op, pawl.Succeeded, nil)) != nil {
					return
				}
				promised(promise{op.ID, 2})
			}
		})
	}
	wg.Wait()
	if err := db.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	db = openTest(t, filepath.Join(after, "pawl.db"), small())
	for _, p := range promises {
		entries, err := db.History(t.Context(), "", p.id)
		switch {
		case errors.Is(err, pawl.ErrNotFound), err == nil && int64(len(entries)) < p.version:
			lost++
		case err != nil:
			t.Errorf("after the power cut: %v", err)
		}
	}
	if err := db.Check(t.Context()); err != nil {
		t.Errorf("after the power cut: %v", err)
	}
	if _, err := begun(t, db, 1); err != nil {
		t.Errorf("begin after the power cut: %v", err)
	}
	return len(promises), lost
}

// TestPowerCut loses nothing that was acknowledged, and shows that it would notice.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	rounds := 25
	if *long {
		rounds = 1000
	}
	first := rand.Uint64()
	for _, mode := range []string{"FULL", "NORMAL"} {
		t.Run(mode, func(t *testing.T) {
			acknowledged, lost := 0, 0
			for round := range uint64(rounds) {
				a, l := cutPower(t, first+round, mode)
				acknowledged, lost = acknowledged+a, lost+l
				if mode == "FULL" && l > 0 {
					t.Errorf("seed %d: %d of %d acknowledged changes are gone", first+round, l, a)
				}
				if mode == "NORMAL" && lost > 0 {
					break
				}
			}
			if acknowledged == 0 {
				t.Error("nothing was acknowledged before the power was cut")
			}
			if mode == "NORMAL" && lost == 0 {
				t.Errorf("nothing of %d changes was lost without syncs: the test cannot fail", acknowledged)
			}
			t.Logf("%d changes acknowledged, %d lost", acknowledged, lost)
		})
	}
}
