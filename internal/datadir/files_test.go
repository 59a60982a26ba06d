package datadir

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func saveFile(t *testing.T, f Files, name, content string) (path string) {
	t.Helper()
	uri, err := f.Save(t.Context(), name, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" {
		t.Fatalf("Save(%q) = %s, %v; want a file URI", name, uri, err)
	}
	return u.Path
}

// listFiles returns the files below the folder.
func listFiles(t *testing.T, f Files) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(string(f), func(path string, at fs.DirEntry, err error) error {
		if err == nil && !at.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return paths
}

func TestAFileIsStoredUnderItsHashForItsOwnerOnly(t *testing.T) {
	f := Dir(filepath.Join(t.TempDir(), "da ta")).Files()
	one := saveFile(t, f, "../../Holiday.PNG", "picture")
	raw, err := os.ReadFile(one)
	info, statErr := os.Stat(one)
	if err != nil || statErr != nil || string(raw) != "picture" || info.Mode().Perm() != 0o600 || filepath.Ext(one) != ".png" {
		t.Errorf("%s has content %q (%v, %v), want \"picture\" and mode 0600", one, raw, err, info.Mode())
	}
	if again := saveFile(t, f, "other.png", "picture"); again != one {
		t.Errorf("the same content is stored at %s and %s", one, again)
	}
	for name, want := range map[string]string{"a.tar.gz": ".gz", "a": "", "a.": "", "a.b/c": "", "a.Ä": "", "a.averylongone": ""} {
		if got := filepath.Ext(saveFile(t, f, name, "of "+name)); got != want {
			t.Errorf("extension of %q: %q, want %q", name, got, want)
		}
	}
}

func TestATruncatedFileIsNotStored(t *testing.T) {
	f := Dir(t.TempDir()).Files()
	broken := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("gone")))
	if uri, err := f.Save(t.Context(), "a.png", broken); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("Save with a read error: %s, %v", uri, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if uri, err := f.Save(ctx, "a.png", strings.NewReader("late")); !errors.Is(err, context.Canceled) {
		t.Errorf("Save with a cancelled context: %s, %v", uri, err)
	}
	if left := listFiles(t, f); len(left) > 0 {
		t.Errorf("files %q, want none", left)
	}
}

func TestOldFilesAreDeletedUnlessStoredAgain(t *testing.T) {
	f := Dir(t.TempDir()).Files()
	if n, err := f.RemoveBefore(t.Context(), time.Now()); n != 0 || err != nil {
		t.Errorf("RemoveBefore() without files = %d, %v", n, err)
	}
	old, again, young := saveFile(t, f, "a", "old"), saveFile(t, f, "b", "again"), saveFile(t, f, "c", "young")
	long := time.Now().Add(-time.Hour)
	for _, path := range []string{old, again} {
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
	}
	killed := filepath.Join(string(f), tempPrefix+"1")
	if err := errors.Join(os.WriteFile(killed, []byte("half"), 0o600), os.Chtimes(killed, long, long)); err != nil {
		t.Fatal(err)
	}
	saveFile(t, f, "b", "again")
	if n, err := f.RemoveBefore(t.Context(), time.Now().Add(-time.Minute)); n != 2 || err != nil {
		t.Errorf("RemoveBefore() = %d, %v; want 2", n, err)
	}
	for path, want := range map[string]bool{old: false, again: true, young: true, killed: false} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("Stat(%s): %v, want it to exist: %t", path, err, want)
		}
	}
}
