package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestFindPrefersTheFlagThenTheVariable(t *testing.T) {
	for name, test := range map[string]struct {
		flag string
		env  map[string]string
		want Dir
	}{
		"the flag":      {"/flag", map[string]string{"MAILROOM_DATA": "/env"}, "/flag"},
		"MAILROOM_DATA": {"", map[string]string{"MAILROOM_DATA": "/env", "XDG_DATA_HOME": "/xdg"}, "/env"},
		"XDG_DATA_HOME": {"", map[string]string{"XDG_DATA_HOME": "/xdg", "HOME": "/home/me"}, "/xdg/mailroom"},
		"relative XDG_DATA_HOME": {"", map[string]string{"XDG_DATA_HOME": "xdg", "HOME": "/home/me"},
			"/home/me/.local/share/mailroom"},
		"home": {"", map[string]string{"HOME": "/home/me"}, "/home/me/.local/share/mailroom"},
	} {
		got, err := Find(test.flag, func(k string) string { return test.env[k] })
		if err != nil || got != test.want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, test.want)
		}
	}
	if got, err := Find("", func(string) string { return "" }); err == nil {
		t.Errorf("without a home: got %s, want an error", got)
	}
}

func acquire(t *testing.T, f Dir) *Lock {
	t.Helper()
	h, err := f.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestASecondServerLearnsWhoLockedTheFolder(t *testing.T) {
	f := Dir(filepath.Join(t.TempDir(), "data"))
	h := acquire(t, f)

	_, err := f.Acquire(t.Context())
	if held, ok := errors.AsType[*InUseError](err); !ok || held.PID != 0 {
		t.Errorf("before WriteAddress: got %v, want an InUseError without a process id", err)
	}
	if err := h.WriteAddress("http://127.0.0.1:1234", ""); err != nil {
		t.Fatal(err)
	}
	_, err = f.Acquire(t.Context())
	if held, ok := errors.AsType[*InUseError](err); !ok || held.PID != os.Getpid() || held.URL != "http://127.0.0.1:1234" {
		t.Errorf("after WriteAddress: got %v, want an InUseError with this process and its address", err)
	}

	if err := h.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Address(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the address after the release: %v, want none", err)
	}
	if err := acquire(t, f).Release(); err != nil {
		t.Fatal(err)
	}
}

func TestTheNextServerRemovesTheAddressOfAKilledOne(t *testing.T) {
	f := Dir(t.TempDir())
	if err := os.WriteFile(f.path("server.json"), []byte(`{"url":"http://127.0.0.1:9","pid":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.Database(), []byte("a store"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := acquire(t, f)
	if err := h.PrepareStore(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Address(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want no address until the new server announces itself", err)
	}
	if err := h.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestTokenIsCreatedOnceAndReadableByItsOwnerOnly(t *testing.T) {
	f := Dir(filepath.Join(t.TempDir(), "data"))
	h := acquire(t, f)
	if err := h.PrepareStore(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Token(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before the first start: %v, want no token", err)
	}
	first, err := h.EnsureToken()
	if err != nil {
		t.Fatal(err)
	}
	again, err := h.EnsureToken()
	if err != nil || again != first || len(first) < 26 {
		t.Errorf("EnsureToken() = %q, then %q, %v; want the same, at least 26 characters", first, again, err)
	}
	if got, err := f.Token(); err != nil || got != first {
		t.Errorf("read %q, %v, want %q", got, err, first)
	}
	for path, want := range map[string]fs.FileMode{string(f): 0o700, f.path("token"): 0o600, f.path("lock"): 0o600,
		f.Database(): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want mode %v", path, info.Mode(), err, want)
		}
	}
	if err := h.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyTheFirstServerOfAFolderHasAnUnusedMark(t *testing.T) {
	dir := Dir(t.TempDir())
	first := ""
	for i := range 3 {
		held, err := dir.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		mark, used, err := held.EnsureProcessMark()
		if err != nil || mark == "" || used != (i > 0) {
			t.Errorf("server %d of the folder: the mark %q, used %v, %v", i, mark, used, err)
		}
		if i == 0 {
			first = mark
		}
		if mark != first {
			t.Errorf("server %d of the folder has another mark", i)
		}
		if err := held.Release(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEmptyTokenIsRefused(t *testing.T) {
	f := Dir(t.TempDir())
	if err := os.WriteFile(f.path("token"), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := acquire(t, f)
	if token, err := h.EnsureToken(); err == nil {
		t.Errorf("token of an empty file: %q, want an error", token)
	}
	if err := h.Release(); err != nil {
		t.Fatal(err)
	}
}
