package sqlite

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

// TestMustExist: who only looks makes nothing where there is no store.
func TestMustExist(t *testing.T) {
	t.Parallel()
	look := small()
	look.MustExist = true
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "none.db"), filepath.Join(dir, "nowhere", "pawl.db"), empty} {
		db, err := Open(path, look)
		if err == nil {
			db.Close()
		}
		if !errors.Is(err, ErrNoStore) {
			t.Errorf("%s: got %v, want ErrNoStore", filepath.Base(path), err)
		}
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("files: got %q, want empty.db alone", got)
	}
	path := newPath(t)
	if err := openTest(t, path, small()).Close(); err != nil {
		t.Fatal(err)
	}
	openTest(t, path, look)
}

// TestLinks: a store lies where symbolic links lead, also when nothing is there yet.
func TestLinks(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"file", "folder"} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "real"), 0o700); err != nil {
			t.Fatal(err)
		}
		target, path := filepath.Join("real", "pawl.db"), filepath.Join(dir, "link")
		if name == "folder" {
			target, path = "real", filepath.Join(dir, "link", "pawl.db")
		}
		if err := os.Symlink(target, filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			db, err := Open(path, small())
			if err != nil {
				t.Fatalf("link to a %s: %v", name, err)
			}
			if err := errors.Join(db.Recovery(), db.Close()); err != nil {
				t.Errorf("link to a %s: %v", name, err)
			}
		}
		if got, want := names(t, filepath.Join(dir, "real")), []string{"pawl.db", "pawl.db-reserve", "pawl.db-shm", "pawl.db-wal"}; !slices.Equal(got, want) {
			t.Errorf("files behind a link to a %s: got %q, want %q", name, got, want)
		}
	}
}

// TestForeignDatabase: the database of another program stays as it is, with nothing beside
// it.
func TestForeignDatabase(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"rollback journal": `CREATE TABLE songs (title TEXT); INSERT INTO songs VALUES ('Ay')`,
		"WAL":              `PRAGMA journal_mode = WAL; CREATE TABLE songs (title TEXT); INSERT INTO songs VALUES ('Ay')`,
		"no table, a mark": `PRAGMA application_id = 7`,
	} {
		path := newPath(t)
		c, err := sqlite3.Open(path)
		if err == nil {
			err = errors.Join(c.Exec(sql), c.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, mustExist := range []bool{false, true} {
			o := small()
			o.MustExist = mustExist
			db, err := Open(path, o)
			if err == nil {
				db.Close()
			}
			if !errors.Is(err, ErrForeign) {
				t.Errorf("%s: got %v, want ErrForeign", name, err)
			}
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
			t.Errorf("%s: the file was changed (%v)", name, err)
		}
		if got := names(t, filepath.Dir(path)); len(got) != 1 {
			t.Errorf("%s: files: got %q, want the database alone", name, got)
		}
	}
}

// TestStoreWithoutMark: a store that was made before the mark was is one, and so is a file
// to which another program has added tables since.
func TestStoreWithoutMark(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	db := openTest(t, path, small())
	if got := queryInt(t, path, `PRAGMA application_id`); got != applicationID {
		t.Errorf("application id: got %#x, want %#x", got, applicationID)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := sqlite3.Open(path)
	if err == nil {
		_, err = c.FileControl("main", sqlite3.FCNTL_PERSIST_WAL, true)
		err = errors.Join(err, c.Exec(`PRAGMA application_id = 0; CREATE TABLE songs (title TEXT)`), c.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if why := openTest(t, path, small()).Recovery(); why != nil {
		t.Errorf("recovery: got %v, want nil", why)
	}
}

func queryInt(t *testing.T, path, sql string) int64 {
	t.Helper()
	c, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, _, err := c.Prepare(sql)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !s.Step() {
		t.Fatal(s.Err())
	}
	return s.ColumnInt64(0)
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}
