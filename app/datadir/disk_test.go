package datadir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// syncs records, for each sync, the name of the file or folder, with "+" if the file at path was there.
type syncs struct {
	path string
	all  []string
}

func (s *syncs) disk() disk {
	return disk{sync: func(f *os.File) error {
		name := filepath.Base(f.Name())
		if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "replaced-") {
			name, _, _ = strings.Cut(strings.TrimPrefix(name, "."), "-")
		}
		if raw, err := os.ReadFile(s.path); err == nil && string(raw) == "new" {
			name += "+"
		}
		s.all = append(s.all, name)
		return nil
	}}
}

func (s *syncs) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(s.all, want) {
		t.Errorf("synced %q, want %q (+: the file has its name)", s.all, want)
	}
}

// lockedFolder returns a locked folder named "data" whose syncs are recorded.
func lockedFolder(t *testing.T) (*Lock, *syncs) {
	t.Helper()
	f := Dir(filepath.Join(t.TempDir(), "data"))
	h := acquire(t, f)
	t.Cleanup(func() { release(t, h) })
	s := &syncs{path: f.Database()}
	h.disk = s.disk()
	return h, s
}

func noRevision(string) error { return nil }

func TestARestoredStoreIsSyncedBeforeItHasItsNameAndTheFoldersAfter(t *testing.T) {
	h, s := lockedFolder(t)
	backup := filepath.Join(t.TempDir(), "backup.db")
	if err := errors.Join(os.WriteFile(backup, []byte("new"), 0o600),
		os.WriteFile(h.Dir.Database(), []byte("old"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.ReplaceStore(backup, noRevision); err != nil {
		t.Fatal(err)
	}
	s.want(t, "mailroom.db", "replaced", "data", "data+")
}

func TestACopiedStoreHasItsNameInASyncedFolder(t *testing.T) {
	h, s := lockedFolder(t)
	path, err := h.PrepareCopy()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("new"), 0o600); err != nil { // the store syncs its file
		t.Fatal(err)
	}
	if err := h.FinishCopy(noRevision); err != nil {
		t.Fatal(err)
	}
	s.want(t, "data", "data+")
}

func TestAChatsFileIsSyncedBeforeItHasItsNameAndItsFoldersAfter(t *testing.T) {
	f := Files(filepath.Join(t.TempDir(), "data", "files"))
	if err := os.Mkdir(filepath.Dir(string(f)), 0o700); err != nil {
		t.Fatal(err)
	}
	s := &syncs{path: filepath.Join(string(f), "ab", "abcd")}
	named := func(string, string) (string, error) { return "abcd", nil }
	for range 2 {
		if _, err := f.writeTo(context.Background(), s.disk(), strings.NewReader("new"), named); err != nil {
			t.Fatal(err)
		}
	}
	s.want(t, "data", "arriving", "files", "ab+", "files+", "arriving+", "ab+", "files+")
}

func TestANewFolderIsSyncedInItsParents(t *testing.T) {
	root := t.TempDir()
	s := &syncs{}
	if err := s.disk().makeFolder(filepath.Join(root, "a", "b", "c")); err != nil {
		t.Fatal(err)
	}
	s.want(t, filepath.Base(root), "a", "b")
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.disk().makeFolder(filepath.Join(root, "file")); err == nil {
		t.Error("a file counts as a folder")
	}
}

func TestADataFolderThatCannotBeMadeIsExplained(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const hint = ": it is a file: choose another one with --data or MAILROOM_DATA"
	inner := filepath.Join(file, "data")
	for dir, want := range map[string]string{
		file:  "the data folder " + file + " cannot be made" + hint,
		inner: "the data folder " + inner + " cannot be made: " + file + hint,
	} {
		_, err := Dir(dir).Acquire(t.Context())
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
