package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestABackupIsSyncedBeforeItHasItsName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	mustPut(t, openAt(t, path, Options{}), "t")
	file, err := OpenFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}()
	target := filepath.Join(t.TempDir(), "copy.db")
	var synced []string
	file.sync = func(f *os.File) error {
		what := "the folder"
		if f.Name() != filepath.Dir(target) {
			info, err := f.Stat()
			if err != nil || info.Size() == 0 {
				t.Errorf("an empty copy is synced: %v", err)
			}
			what = "the copy"
		}
		_, err := os.Stat(target)
		synced = append(synced, fmt.Sprintf("%s, named %t", what, err == nil))
		return f.Sync()
	}
	if err := file.Backup(t.Context(), target, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"the copy, named false", "the folder, named true"}; !slices.Equal(synced, want) {
		t.Errorf("synced %q, want %q", synced, want)
	}
}
