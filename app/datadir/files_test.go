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
	if err != nil || statErr != nil || string(raw) != "picture" || info.Mode().Perm() != 0o600 ||
		filepath.Ext(one) != ".png" {
		t.Errorf("%s has content %q (%v, %v), want \"picture\" and mode 0600", one, raw, err, info.Mode())
	}
	if again := saveFile(t, f, "other.png", "picture"); again != one {
		t.Errorf("the same content is stored at %s and %s", one, again)
	}
	for name, want := range map[string]string{"a.tar.gz": ".gz", "a": "", "a.": "", "a.b/c": "", "a.Ä": "",
		"a.averylongone": ""} {
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

// The age of a file is looked at before it is removed, and it may be saved again in between.
func TestAFileThatIsSavedAgainIsNotRemoved(t *testing.T) {
	f := Dir(t.TempDir()).Files()
	path := saveFile(t, f, "a", "again")
	if removed, err := expire(path, time.Now().Add(-time.Minute)); removed || err != nil {
		t.Errorf("expire() of a file that was just saved = %t, %v", removed, err)
	}
	if raw, err := os.ReadFile(path); string(raw) != "again" {
		t.Errorf("the file has content %q, %v", raw, err)
	}
	if err := os.Rename(path, path+expiringSuffix); err != nil { // killed while it looked again
		t.Fatal(err)
	}
	if n, err := f.RemoveBefore(t.Context(), time.Now().Add(-time.Minute)); n != 0 || err != nil {
		t.Errorf("RemoveBefore() = %d, %v; want 0", n, err)
	}
	if raw, err := os.ReadFile(path); string(raw) != "again" {
		t.Errorf("after a kill the file has content %q, %v", raw, err)
	}
}

func TestAFileThatIsKeptIsYoungAgain(t *testing.T) {
	f := Dir(t.TempDir()).Files()
	old, kept := saveFile(t, f, "a.png", "old"), saveFile(t, f, "b.png", "kept")
	long := time.Now().Add(-time.Hour)
	if err := errors.Join(os.Chtimes(old, long, long), os.Chtimes(kept, long, long)); err != nil {
		t.Fatal(err)
	}
	names := []string{filepath.Base(kept), strings.Repeat("0", 64), "../" + filepath.Base(old), ""}
	if err := f.Keep(t.Context(), names, time.Now()); err != nil {
		t.Fatal(err)
	}
	if n, err := f.RemoveBefore(t.Context(), time.Now().Add(-time.Minute)); n != 1 || err != nil {
		t.Errorf("RemoveBefore() = %d, %v; want 1", n, err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

func TestACopyHasTheNameAndTheAgeOfTheOriginal(t *testing.T) {
	one, other := Dir(t.TempDir()).Files(), Dir(t.TempDir()).Files()
	stored, err := one.Add(t.Context(), "a.png", strings.NewReader("picture"))
	if err != nil {
		t.Fatal(err)
	}
	saved := time.Now().Add(-time.Hour).Truncate(time.Second)
	if err := other.Fill(t.Context(), stored, saved, strings.NewReader("picture")); err != nil {
		t.Fatal(err)
	}
	path, ok := other.Path(stored)
	raw, err := os.ReadFile(path)
	info, statErr := os.Stat(path)
	if !ok || string(raw) != "picture" || err != nil || statErr != nil || !info.ModTime().Equal(saved) ||
		info.Mode().Perm() != 0o600 {
		t.Errorf("%s (%t) has content %q, %v, %v; want the original's content and age", path, ok, raw, err, info)
	}
	if n, err := other.RemoveBefore(t.Context(), time.Now().Add(-time.Minute)); n != 1 || err != nil {
		t.Errorf("RemoveBefore() = %d, %v; want 1", n, err)
	}
	err = other.Fill(t.Context(), stored, saved, strings.NewReader("Picture"))
	if left := listFiles(t, other); !errors.Is(err, ErrDamaged) || len(left) > 0 {
		t.Errorf("other content: error %v, files %q; want a refusal and no file", err, left)
	}
}

// FuzzStoredName checks the names of files in messages, which any user can write.
func FuzzStoredName(f *testing.F) {
	hash := strings.Repeat("0a", 32)
	for _, name := range []string{
		hash, hash + ".png", hash + ".PNG", hash + ".", hash + ".a.b", hash + ".tar/../x", hash[1:], hash[1:] + "A",
		hash + ".123456789",
		"../" + hash[3:], hash[:2] + "/" + hash[3:], "", ".png", hash + ".a\x00", hash + "\n", strings.ToUpper(hash),
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		files := Files("/data/files")
		path, ok := files.Path(name)
		if !ok {
			if path != "" {
				t.Errorf("Path(%q) = %q, false; want no path", name, path)
			}
			return
		}
		end := strings.TrimPrefix(filepath.Ext(name), ".")
		if path != filepath.Clean(path) || path != "/data/files/"+name[:2]+"/"+name || len(name) > 2*32+1+8 ||
			extension(name) != filepath.Ext(name) ||
			strings.ContainsAny(name, "/\\\x00") || strings.ContainsAny(end, ".") {
			t.Errorf("Path(%q) = %q, want a refusal", name, path)
		}
		if again := filepath.Base(path); again != name {
			t.Errorf("Path(%q) ends in %q", name, again)
		}
	})
}
