package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mailroom"
	"mailroom/store"
	"mailroom/store/storetest"
)

func put(t *testing.T, s *Store, id string) error {
	return s.Update(t.Context(), func(tx store.Tx) error {
		return tx.Write(&store.Changes{Threads: []*mailroom.Thread{{ID: id}}})
	})
}

func mustPut(t *testing.T, s *Store, id string) {
	t.Helper()
	if err := put(t, s, id); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, s *Store) int {
	t.Helper()
	n := 0
	err := s.View(t.Context(), func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{})
		n = len(rows)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func wantUnavailable(t *testing.T, err error) {
	t.Helper()
	if mailroom.CodeOf(err) != mailroom.CodeUnavailable {
		t.Errorf("got error %v, want one of code unavailable", err)
	}
}

// pragma runs a pragma on the writer's connection.
func pragma(t *testing.T, s *Store, text string) {
	t.Helper()
	if _, err := s.writer.value(t.Context(), "PRAGMA "+text); err != nil {
		t.Fatal(err)
	}
}

func TestAFullDiskEndsWritingUntilTheStoreIsOpenedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	s := openAt(t, path, Options{})
	mustPut(t, s, "before")
	pragma(t, s, "max_page_count = 1") // SQLite uses the current number, so nothing can be added

	wantUnavailable(t, s.Update(t.Context(), func(tx store.Tx) error {
		return tx.Write(&store.Changes{Threads: []*mailroom.Thread{{ID: strings.Repeat("long ", 10_000)}}})
	}))
	pragma(t, s, "max_page_count = 1000000") // there is room again, but the file's state was not checked
	wantUnavailable(t, put(t, s, "after"))
	if got := count(t, s); got != 1 {
		t.Errorf("rows of a view after the error: got %d, want 1", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	again := openAt(t, path, Options{})
	mustPut(t, again, "after")
	if got := count(t, again); got != 2 {
		t.Errorf("rows after opening again: got %d, want 2", got)
	}
}

func TestAFullDiskEndsWritingAlsoIfTheErrorIsIgnored(t *testing.T) {
	s := openTest(t, Options{})
	pragma(t, s, "max_page_count = 1")
	wantUnavailable(t, s.Update(t.Context(), func(tx store.Tx) error {
		err := tx.Write(&store.Changes{Threads: []*mailroom.Thread{{ID: strings.Repeat("long ", 10_000)}}})
		wantUnavailable(t, err)
		return nil
	}))
	wantUnavailable(t, put(t, s, "after"))
}

func TestARefusedCommitIsRolledBack(t *testing.T) {
	s := openTest(t, Options{})
	mustPut(t, s, "before")
	pragma(t, s, "foreign_keys = on")
	err := s.Update(t.Context(), func(tx store.Tx) error {
		pragma(t, s, "defer_foreign_keys = on") // until the commit
		if _, err := s.writer.exec(t.Context(), insertKey, int64(1<<40), "a key of no thread", "", ""); err != nil {
			return err
		}
		return tx.Write(&store.Changes{Threads: []*mailroom.Thread{{ID: "lost"}}})
	})
	if mailroom.CodeOf(err) != mailroom.CodeInternal {
		t.Errorf("got error %v, want one of code internal", err)
	}
	if got := count(t, s); got != 1 {
		t.Errorf("rows: got %d, want the one that was committed", got)
	}
	mustPut(t, s, "after")
}

func TestABusyDatabaseIsUnavailableAndStaysUsable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	holder := openAt(t, path, Options{})
	s := openAt(t, path, Options{BusyTimeout: 20 * time.Millisecond})
	err := holder.Update(t.Context(), func(store.Tx) error {
		wantUnavailable(t, put(t, s, "t"))
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("enough"))
		wantUnavailable(t, s.Update(ctx, func(store.Tx) error { return nil }))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, "t")
	if got := count(t, holder); got != 1 {
		t.Errorf("rows seen by the other handle: got %d, want 1", got)
	}
}

func TestTwoHandlesShareAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	handles := []*Store{openAt(t, path, Options{}), openAt(t, path, Options{})}
	const each = 20
	var all sync.WaitGroup
	for _, s := range handles {
		all.Go(func() {
			for range each {
				err := s.Update(t.Context(), func(tx store.Tx) error {
					_, rows, err := storetest.Lock(tx, nil, []string{"t"})
					if err != nil {
						return err
					}
					rows[0].LastSeq++
					return tx.Write(&store.Changes{Threads: rows})
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, s := range handles {
		err := s.View(t.Context(), func(r store.Reader) error {
			rows, err := r.Threads(store.ThreadQuery{})
			if len(rows) != 1 || rows[0].LastSeq != each*int64(len(handles)) {
				t.Errorf("rows %v, want one with a count of %d", rows, each*len(handles))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestConcurrentOpensCreateTheStoreOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mail.db")
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			s, err := Open(t.Context(), path, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			if err := put(t, s, fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := count(t, openAt(t, path, Options{})); got != 4 {
		t.Errorf("rows: got %d, want 4", got)
	}
}

func TestTablesOfANewerVersionAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	s := openAt(t, path, Options{})
	_, err := s.writer.value(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), path, Options{})
	if err == nil || !strings.Contains(err.Error(), "version 99") || !strings.Contains(err.Error(), "newer") {
		t.Errorf("error %v, want one with the newer version", err)
	}
}

func TestAnOldSQLiteIsRefused(t *testing.T) {
	for version, want := range map[string]bool{
		"3.51.3": true, "3.51.10": true, "3.54.0": true, "4.0.0": true, "3.51.3.1": true,
		"3.51.2": false, "3.50.9": false, "3.9.99": false, "2.99.99": false, "": false, "3.x.1": false,
	} {
		if err := supported(version); (err == nil) != want {
			t.Errorf("version %q: got error %v, want supported %v", version, err, want)
		}
	}
}

func TestAPathWithSpecialCharactersIsOpened(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a b", "50%", "what?mode=memory", "x#y", "ünï", "%41", "a&b=c", ":memory:"} {
		path := filepath.Join(dir, name)
		mustPut(t, openAt(t, path, Options{}), "t")
		if _, err := os.Stat(path); err != nil {
			t.Errorf("the store did not create the file %q: %v", name, err)
		}
	}
}

func TestOpenRefusesFilesThatAreNoDatabase(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "a\x00b", dir, filepath.Join(dir, "none", "mail.db"), text} {
		if s, err := Open(t.Context(), path, Options{}); err == nil {
			t.Errorf("path %q was opened", path)
			_ = s.Close() // the test has failed already
		}
	}
}

func TestAViewThatIsCancelledEndsAndLeavesItsReaderUsable(t *testing.T) {
	s := openTest(t, Options{Readers: 1})
	mustPut(t, s, "t")
	ctx, cancel := context.WithCancel(t.Context())
	err := s.View(ctx, func(r store.Reader) error {
		cancel()
		_, err := r.Threads(store.ThreadQuery{})
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want one that wraps context.Canceled", err)
	}
	wantUnavailable(t, err)
	if got := count(t, s); got != 1 {
		t.Errorf("rows of the next view: got %d, want 1", got)
	}
}

func TestAViewWaitsForAReaderUntilItsContextEnds(t *testing.T) {
	s := openTest(t, Options{Readers: 1})
	err := s.View(t.Context(), func(store.Reader) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		return s.View(ctx, func(store.Reader) error { return errors.New("two views on one reader") })
	})
	wantUnavailable(t, err)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want one that wraps the deadline's", err)
	}
}

func TestCloseWaitsForUpdatesAndViewsAndLeavesNoGoroutine(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	path := filepath.Join(t.TempDir(), "mail.db")
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	inside, closed := make(chan struct{}), make(chan error, 1)
	viewed, updated := make(chan error, 1), make(chan error, 1)
	go func() {
		viewed <- s.View(t.Context(), func(r store.Reader) error {
			inside <- struct{}{}
			<-s.turns.Closing()
			_, err := r.Threads(store.ThreadQuery{})
			return err
		})
	}()
	go func() {
		updated <- s.Update(t.Context(), func(tx store.Tx) error {
			inside <- struct{}{}
			<-s.turns.Closing()
			return tx.Write(&store.Changes{Threads: []*mailroom.Thread{{ID: "t"}}})
		})
	}()
	<-inside
	<-inside
	go func() { closed <- s.Close() }()
	for name, done := range map[string]chan error{"view": viewed, "update": updated, "close": closed} {
		if err := <-done; err != nil {
			t.Errorf("%s: got error %v, want none", name, err)
		}
	}
	wantUnavailable(t, put(t, s, "late"))
	if err := s.Close(); err != nil {
		t.Errorf("a second close: %v", err)
	}
	goleak.VerifyNone(t, ignore)
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the write-ahead log exists after Close: %v", err)
	}
}

func TestDroppedThreadsLeaveNoRow(t *testing.T) {
	s := openTest(t, Options{})
	usual(t, s)
	err := s.Update(t.Context(), func(tx store.Tx) error {
		if err := tx.Write(&store.Changes{Partials: []store.Partial{{Run: "r", Text: "text"}}}); err != nil {
			return err
		}
		return tx.Write(&store.Changes{DropThreads: []string{"t", "p"}})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"thread", "run", "entry", "submit_key", "partial", "ticket"} {
		err := s.writer.query(t.Context(), "SELECT count(*) FROM "+table, nil, func(c *columns) (bool, error) {
			if n := c.Int64(); n != 0 {
				t.Errorf("rows of %s: got %d, want none", table, n)
			}
			return true, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
