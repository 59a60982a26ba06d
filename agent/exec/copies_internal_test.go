package exec

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/internal/proc"
)

// TestAnotherUserGetsCopiesOfItsOwnFilesOnly checks that links and paths outside the folder of
// files are not copied.
func TestAnotherUserGetsCopiesOfItsOwnFilesOnly(t *testing.T) {
	base := t.TempDir()
	t.Setenv("TMPDIR", base)
	files := filepath.Join(base, "data", "files")
	mine, theirs, secret := filepath.Join(files, "ab", "mine.txt"), filepath.Join(files, "cd", "theirs.txt"),
		filepath.Join(base, "data", "token")
	link, gone := filepath.Join(files, "link.txt"), filepath.Join(files, "gone.txt")
	err := errors.Join(
		os.MkdirAll(filepath.Dir(mine), 0o700), os.MkdirAll(filepath.Dir(theirs), 0o700),
		os.WriteFile(mine, []byte("mine"), 0o600),
		os.WriteFile(theirs, []byte("theirs"), 0o600), os.WriteFile(secret, []byte("hush"), 0o600), os.Symlink(secret, link),
	)
	if err != nil {
		t.Fatal(err)
	}
	user := &proc.User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	a := &agent{options: Options{Files: files, Mark: "mine", Isolation: &proc.Isolation{Kind: proc.KindNone, User: user}}}
	named := []string{mine, secret, link, gone, files + "/../token", "/etc/passwd", "https://files.example/mine.txt"}
	var parts []mailroom.Part
	for _, path := range named {
		parts = append(parts, mailroom.Part{Type: "file", Name: "f", URI: path})
	}
	input := []mailroom.Message{{Parts: parts}}
	copied, release, err := a.copyFiles(input)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range copied[0].Parts {
		got = append(got, p.URI)
	}
	if diff := cmp.Diff(named[1:], got[1:]); diff != "" {
		t.Errorf("paths that lead elsewhere (-want +got):\n%s", diff)
	}
	text, err := os.ReadFile(got[0])
	if err != nil || string(text) != "mine" || got[0] == mine || input[0].Parts[0].URI != mine {
		t.Errorf("copy of %s is %s, %q, %v", mine, got[0], text, err)
	}
	for path, want := range map[string]os.FileMode{got[0]: 0o400, filepath.Dir(got[0]): 0o700,
		filepath.Dir(filepath.Dir(got[0])): 0o711} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want the mode %o", path, info.Mode(), err, want)
		}
	}
	if _, err := Reap(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(got[0]); err != nil {
		t.Errorf("copy after Reap of another server: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.copyFiles(input); err != nil { // the server is then killed
		t.Fatal(err)
	}
	if _, err := Reap(t.Context(), "mine"); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(base, "mailroom-files-*")); err != nil || len(left) > 0 {
		t.Errorf("remaining copies %q, %v", left, err)
	}
	for _, i := range []*proc.Isolation{nil, {Kind: proc.KindNone}, {Kind: proc.KindNamespace, User: user}} {
		a.options.Isolation = i
		if copied, _, err := a.copyFiles(input); err != nil || copied[0].Parts[0].URI != mine {
			t.Errorf("%+v: copied %v, %v", i, copied, err)
		}
	}
}
