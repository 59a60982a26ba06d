package tracker

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func open(t *testing.T) *Dir {
	t.Helper()
	d, err := MakeDir(filepath.Join(t.TempDir(), "project"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func lock(t *testing.T, d *Dir, wait WaitOptions) *Lock {
	t.Helper()
	l, err := d.Lock(t.Context(), "lock", "file", wait)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func unlock(t *testing.T, l *Lock) {
	t.Helper()
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestALockWaitNamesTheHolderAndTimesOut(t *testing.T) {
	d := open(t)
	synctest.Test(t, func(t *testing.T) {
		l := lock(t, d, WaitOptions{Command: "bd update"})
		since := time.Now()
		begin := time.Now()
		var notices []time.Duration
		_, err := d.Lock(t.Context(), "lock", "file", WaitOptions{Max: 30 * time.Second, NoticeAfter: 2 * time.Second,
			OnWait: func(h Holder) {
				if h.PID != os.Getpid() || h.Command != "bd update" || !h.Since.Equal(since.Truncate(time.Second)) {
					t.Errorf("holder %+v", h)
				}
				notices = append(notices, time.Since(begin))
			}})
		locked, ok := errors.AsType[*LockedError](err)
		if !ok || locked.Holder.Command != "bd update" || !strings.Contains(err.Error(), `("bd update", since`) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(begin); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("waited %s", took)
		}
		if len(notices) != 1 || notices[0] < 2*time.Second || notices[0] > 3*time.Second {
			t.Errorf("OnWait was called after %v", notices)
		}
		unlock(t, l)
		unlock(t, lock(t, d, WaitOptions{}))
	})
}

func TestALockWaitEndsWithItsContext(t *testing.T) {
	d := open(t)
	l := lock(t, d, WaitOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := d.Lock(ctx, "lock", "file", WaitOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	unlock(t, l)
}

func TestAReplacedLockFileIsLockedAgain(t *testing.T) {
	d := open(t)
	synctest.Test(t, func(t *testing.T) {
		old := lock(t, d, WaitOptions{})
		got := make(chan *Lock)
		go func() { got <- lock(t, d, WaitOptions{}) }()
		synctest.Wait()                                   // the goroutine waits for the old file
		if err := os.Remove(d.Path("lock")); err != nil { // as git clean does
			t.Fatal(err)
		}
		now := lock(t, d, WaitOptions{})
		unlock(t, old)
		select {
		case <-got:
			t.Fatal("two holders at once")
		case <-time.After(time.Second):
		}
		unlock(t, now)
		unlock(t, <-got)
	})
}

// A lock file names the temporary file of its holder. A repository may contain a lock
// file, so only names that Lock generates are removed.
func TestTheTemporaryFileOfAKilledHolderIsRemoved(t *testing.T) {
	d := open(t)
	killed := lock(t, d, WaitOptions{Command: "bd update"})
	raw, err := os.ReadFile(d.Path("lock"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{killed.temporary, "file", "notes.tmp", "file.AAAA.tmp"} {
		if err := d.Create(name, "left"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(d.Path("lock"), []byte(strings.Replace(string(raw), killed.temporary, name, 1)),
			0o600); err != nil {
			t.Fatal(err)
		}
		if name == killed.temporary {
			killed.holderWritten = false // Unlock then leaves the record, as a killed process does
			unlock(t, killed)
		}
		unlock(t, lock(t, d, WaitOptions{}))
		if _, err := d.Stat(name); (err == nil) != (name != killed.temporary) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReplaceLeavesNoTemporaryFile(t *testing.T) {
	d := open(t)
	l := lock(t, d, WaitOptions{})
	if err := l.Replace("file", 0o600, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }, nil); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	for what, err := range map[string]error{
		"write":  l.Replace("file", 0o600, func(io.Writer) error { return stop }, nil),
		"rename": l.Replace("file", 0o600, func(io.Writer) error { return nil }, func() error { return stop }),
	} {
		if !errors.Is(err, stop) {
			t.Errorf("%s: %v", what, err)
		}
	}
	unlock(t, l)
	if raw, err := d.Read("file", 3); err != nil || string(raw) != "new" {
		t.Errorf("%q, %v", raw, err)
	}
	if _, err := d.Read("file", 2); err == nil {
		t.Error("a file of 3 bytes was read with a limit of 2")
	}
	left, err := filepath.Glob(d.Path("*.tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files %v, %v; want none", left, err)
	}
}
