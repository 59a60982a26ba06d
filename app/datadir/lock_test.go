package datadir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom/store/sqlite"
)

func release(t *testing.T, h *Lock) {
	t.Helper()
	if err := h.Release(); err != nil {
		t.Error(err)
	}
}

func TestAFolderWhoseLockFileWasRemovedIsStillLocked(t *testing.T) {
	f := Dir(t.TempDir())
	h := acquire(t, f)
	defer release(t, h)
	if err := os.Remove(f.path("lock")); err != nil {
		t.Fatal(err)
	}
	_, err := f.Acquire(t.Context())
	if _, ok := errors.AsType[*InUseError](err); !ok {
		t.Errorf("got %v, want a InUseError", err)
	}
}

func TestAcquireWaitsForAServerThatIsStopping(t *testing.T) {
	f := Dir(t.TempDir())
	first := acquire(t, f)
	ended := make(chan error, 1)
	time.AfterFunc(lockWait/20, func() { ended <- first.Release() })
	next, err := f.Acquire(t.Context())
	if err != nil {
		t.Fatalf("got %v, want the lock once the first has released it", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	release(t, next)
}

func TestAContextEndsTheWaitForALock(t *testing.T) {
	f := Dir(t.TempDir())
	defer release(t, acquire(t, f))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Acquire(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want a cancelled context", err)
	}
}

func TestAFolderThatHasLostItsStoreIsRefused(t *testing.T) {
	for _, evidence := range []string{"mailroom.db-wal", "mailroom.db" + sqlite.RevisionSuffix, "token", "server.json"} {
		for _, how := range []string{"missing", "empty"} {
			t.Run(evidence+", "+how, func(t *testing.T) {
				f := Dir(t.TempDir())
				if err := os.WriteFile(f.path(evidence), []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
				if how == "empty" {
					if err := os.WriteFile(f.Database(), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				for range 2 { // a refusal does not remove the evidence
					h := acquire(t, f)
					err := h.PrepareStore()
					release(t, h)
					if lost, ok := errors.AsType[*LostStoreError](err); !ok || filepath.Base(lost.Evidence) != evidence {
						t.Errorf("PrepareStore() = %v, want a LostStoreError with the file", err)
					}
				}
			})
		}
	}
}

func TestAReplacedStoreIsKeptBesideTheNewOne(t *testing.T) {
	f := Dir(t.TempDir())
	backup := filepath.Join(t.TempDir(), "backup.db")
	for path, content := range map[string]string{
		backup: "new", f.Database(): "old", f.Database() + "-wal": "old wal", f.TokenFile(): "token",
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := acquire(t, f)
	defer release(t, h)
	kept, err := h.ReplaceStore(backup, func(database string) error {
		return sqlite.WriteRevision(database, sqlite.Revision{Commits: 7})
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		f.Database(): "new", filepath.Join(kept, "mailroom.db"): "old", filepath.Join(kept, "mailroom.db-wal"): "old wal",
		backup: "new",
	} {
		if raw, err := os.ReadFile(path); err != nil || string(raw) != want {
			t.Errorf("%s has content %q, %v, want %q", filepath.Base(path), raw, err, want)
		}
	}
	if info, err := os.Stat(f.Database()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the store is %v, %v; want mode 0600", info, err)
	}
	if last, known, err := sqlite.ReadRevision(f.Database()); last.Commits != 7 || !known || err != nil {
		t.Errorf("got the revision %+v, %t, %v, want 7", last, known, err)
	}
	if _, err := os.Stat(f.Database() + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the WAL of the old store still exists: %v", err)
	}
	if err := h.PrepareStore(); err != nil {
		t.Error(err)
	}
	if entries, err := filepath.Glob(f.path(".mailroom.db-*")); err != nil || len(entries) > 0 ||
		!strings.HasPrefix(filepath.Base(kept), "replaced-") {
		t.Errorf("temporary files %q, %v, want none; old store at %s, want replaced-…", entries, err, kept)
	}
}
