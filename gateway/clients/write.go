package clients

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Open reads the configuration file at path. A symbolic link is followed: the file that it
// leads to is the one that is read, and later written.
func Open(path string) (*File, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read client configuration: %w", err)
	}
	return Read(path, text)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil && !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	return io.ReadAll(io.LimitReader(f, MaxFile+1))
}

// ErrChanged: somebody else has changed the file since it was read.
var ErrChanged = errors.New("the file has changed since it was read: run the command again")

// Replace writes the text of a change in the place of the file that f was read from, whole
// or not at all, with the permissions and the owner that it has. A text that is no
// configuration file any more is refused.
func (f *File) Replace(c *Change) error {
	if _, err := Read(f.Name, c.Text); err != nil {
		return fmt.Errorf("the changed file would not be readable: %w", err)
	}
	return replace(f.Name, f.text, c.Text)
}

func replace(path string, old, text []byte) error {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	fi, err := os.Stat(target)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if now, err := readFile(target); err != nil || !bytes.Equal(now, old) {
		return errors.Join(fmt.Errorf("write %s: %w", path, ErrChanged), err)
	}
	if err := place(target, text, fi, os.Rename); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// place writes a file beside target and puts it in its place by move.
func place(target string, text []byte, like os.FileInfo, move func(from, to string) error) error {
	dir := filepath.Dir(target)
	f, err := os.CreateTemp(dir, "."+filepath.Base(target)+".pawl-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(like.Mode().Perm()), ownedLike(f, like), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := move(f.Name(), target); err != nil {
		return err
	}
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync() // a system that cannot sync a folder has the file all the same
		d.Close()
	}
	return nil
}

// A backup is the text of a file before a change, in a file beside it whose name tells
// which text the change wrote.
const backupMark = ".before-pawl-"

// Backup keeps the text that f was read with beside the file, and returns where. The
// permissions are those of the file.
func (f *File) Backup(c *Change) (string, error) {
	target, err := filepath.EvalSymlinks(f.Name)
	if err != nil {
		return "", fmt.Errorf("back up %s: %w", f.Name, err)
	}
	fi, err := os.Stat(target)
	if err != nil {
		return "", fmt.Errorf("back up %s: %w", f.Name, err)
	}
	name := target + backupMark + digest(c.Text)
	if err := place(name, f.text, fi, os.Rename); err != nil {
		return "", fmt.Errorf("back up %s: %w", f.Name, err)
	}
	return name, nil
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// backup is one found beside a file.
type backup struct {
	name string
	of   string // digest of the text that was written over it
	when time.Time
}

// backups lists those of a file, the newest first.
func backups(target string) ([]backup, error) {
	entries, err := os.ReadDir(filepath.Dir(target))
	if err != nil {
		return nil, err
	}
	var all []backup
	for _, e := range entries {
		of, ok := strings.CutPrefix(e.Name(), filepath.Base(target)+backupMark)
		if !ok {
			continue
		}
		b := backup{name: filepath.Join(filepath.Dir(target), e.Name()), of: of}
		if fi, err := e.Info(); err == nil {
			b.when = fi.ModTime()
		}
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b backup) int {
		if c := b.when.Compare(a.when); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	return all, nil
}

// Undo is what takes every Install of the file back, and the backups that are of no use
// after it. A file that is as Install left it becomes byte for byte what it was before. One
// that was edited since keeps its edits: only what Install wrote goes.
func (f *File) Undo() (*Change, []string, error) {
	target, err := filepath.EvalSymlinks(f.Name)
	if err != nil {
		return nil, nil, fmt.Errorf("undo %s: %w", f.Name, err)
	}
	kept, err := backups(target)
	if err != nil {
		return nil, nil, fmt.Errorf("undo %s: %w", f.Name, err)
	}
	text := f.text
	var used []string
	for len(used) < len(kept) {
		i := slices.IndexFunc(kept, func(b backup) bool { return b.of == digest(text) && !slices.Contains(used, b.name) })
		if i < 0 {
			break
		}
		if text, err = readFile(kept[i].name); err != nil {
			return nil, nil, fmt.Errorf("undo %s: %w", f.Name, err)
		}
		used = append(used, kept[i].name)
	}
	before, err := Read(f.Name, text)
	if err != nil {
		return nil, nil, err
	}
	// What is left was installed before an edit; a URL is known from the oldest backup.
	var earlier *File
	if len(kept) > 0 {
		if old, err := readFile(kept[len(kept)-1].name); err == nil {
			earlier, _ = Read(f.Name, old)
		}
	}
	c := before.Remove(earlier)
	whole := f.Remove(before)
	for i := range whole.Servers {
		if o := &whole.Servers[i]; o.What == Skipped {
			for _, p := range c.Servers {
				if p.Server == o.Server && p.What.Changes() {
					*o = p
				}
			}
		}
	}
	return &Change{Text: c.Text, Servers: whole.Servers}, used, nil
}
