package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"mailroom/store"
	"mailroom/store/sqlite"
	"mailroom/store/storetest"
)

func open(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	// Creating the tables takes most of a short test's time, so every store starts as a copy of an
	// empty one.
	path := filepath.Join(t.TempDir(), "empty.db")
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	empty, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, func(t *testing.T) store.Store {
		path := filepath.Join(t.TempDir(), "mail.db")
		if err := os.WriteFile(path, empty, 0o600); err != nil {
			t.Fatal(err)
		}
		return open(t, path)
	})
}

func TestStoreKeepsEverything(t *testing.T) {
	storetest.Reopen(t, func(t *testing.T, dir string) store.Store {
		return open(t, filepath.Join(dir, "mail.db"))
	})
}
