package tracker

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestAFileIsSyncedBeforeItHasItsNameAndTheFolderAfter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "project")
	d, err := MakeDir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	lock, err := d.Lock(t.Context(), "lock", "data", WaitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	}()
	var synced []string
	d.sync = func(f *os.File) error {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		raw, _ := os.ReadFile(filepath.Join(path, "data")) // missing before the rename
		synced = append(synced, fmt.Sprintf("folder %t, data %q", info.IsDir(), raw))
		return f.Sync()
	}
	err = lock.Replace("data", 0o600, func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		return err
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{`folder false, data ""`, `folder true, data "new"`}; !slices.Equal(synced, want) {
		t.Errorf("synced %q, want %q", synced, want)
	}
}
