package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"mailroom/store/sqlite"
)

// TestAFolderWithAnUnfinishedCopyIsRefusedUntilItIsRepeated ends a copy at each step of it.
func TestAFolderWithAnUnfinishedCopyIsRefusedUntilItIsRepeated(t *testing.T) {
	writeRevision := func(database string) error {
		return sqlite.WriteRevision(database, sqlite.Revision{Commits: 3})
	}
	cut := errors.New("cut")
	for name, end := range map[string]func(h *Lock, path string) error{
		"before rows": func(*Lock, string) error { return cut },
		"among rows": func(_ *Lock, path string) error {
			return errors.Join(os.WriteFile(path, []byte("half"), 0o600), os.WriteFile(path+"-wal", []byte("wal"), 0o600), cut)
		},
		"behind the revision": func(h *Lock, _ string) error {
			return h.FinishCopy(func(database string) error { return errors.Join(writeRevision(database), cut) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := Dir(t.TempDir())
			h := acquire(t, f)
			defer release(t, h)
			if err := os.WriteFile(f.TokenFile(), []byte("token"), 0o600); err != nil { // of a server on another store
				t.Fatal(err)
			}
			path, err := h.PrepareCopy()
			if err != nil {
				t.Fatal(err)
			}
			if err := end(h, path); !errors.Is(err, cut) {
				t.Fatal(err)
			}
			var unfinished *UnfinishedCopyError
			if err := h.PrepareStore(); !errors.As(err, &unfinished) {
				t.Errorf("PrepareStore() = %v, want an UnfinishedCopyError", err)
			}
			if path, err = h.PrepareCopy(); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(path); err != nil || info.Size() != 0 || info.Mode().Perm() != 0o600 {
				t.Errorf("the repeated copy begins with %v, %v, want an empty file with mode 0600", info, err)
			}
			if err := os.WriteFile(path, []byte("rows"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := h.FinishCopy(writeRevision); err != nil {
				t.Fatal(err)
			}
			if err := h.PrepareStore(); err != nil {
				t.Errorf("PrepareStore() after the copy: %v", err)
			}
			if raw, err := os.ReadFile(f.Database()); err != nil || string(raw) != "rows" {
				t.Errorf("the store is %q, %v", raw, err)
			}
			if rest, err := filepath.Glob(f.path("mailroom.db-*")); err != nil || len(rest) != 1 {
				t.Errorf("further files are %q, %v, want the revision only", rest, err)
			}
		})
	}
}

func TestAFolderWithAStoreReceivesNoCopy(t *testing.T) {
	for _, name := range []string{"mailroom.db", "mailroom.db-wal", "mailroom.db" + sqlite.RevisionSuffix} {
		f := Dir(t.TempDir())
		h := acquire(t, f)
		if err := os.WriteFile(f.path(name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := h.PrepareCopy()
		if there, ok := errors.AsType[*StoreExistsError](err); !ok || there.File != f.path(name) {
			t.Errorf("with %s: %v, want a StoreExistsError", name, err)
		}
		release(t, h)
	}
}
