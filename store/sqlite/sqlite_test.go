package sqlite_test

import (
	"path/filepath"
	"testing"

	"mailroom"
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
	storetest.Run(t, func(t *testing.T) mailroom.Store {
		return open(t, filepath.Join(t.TempDir(), "mail.db"))
	})
}

func TestStoreKeepsEverything(t *testing.T) {
	storetest.Reopen(t, func(t *testing.T, dir string) mailroom.Store {
		return open(t, filepath.Join(dir, "mail.db"))
	})
}
