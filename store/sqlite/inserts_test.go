package sqlite

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

// newBatch returns n new threads, each with a run and an entry. The ids begin with name.
func newBatch(t *testing.T, name string, n int) *store.Changes {
	t.Helper()
	c := &store.Changes{}
	for i := range n {
		id := fmt.Sprintf("%s-%02d", name, i)
		e, err := entry.New(id, 1, entry.KindStep, "r-"+id, 1, time.Unix(1, 0), entry.StepNamed{Name: id})
		if err != nil {
			t.Fatal(err)
		}
		c.Threads = append(c.Threads, &mailroom.Thread{ID: id, FirstSeq: 1, LastSeq: 1})
		c.Runs = append(c.Runs, &mailroom.Run{ID: "r-" + id, Thread: id, Status: mailroom.StatusQueued, FirstSeq: 1})
		c.Entries = append(c.Entries, []mailroom.Entry{e})
	}
	return c
}

// rows returns how many threads, runs and entries a store has.
func rows(t *testing.T, s *Store) (n [3]int) {
	t.Helper()
	err := s.View(t.Context(), func(r store.Reader) error {
		threads, err := r.Threads(store.ThreadQuery{})
		if err != nil {
			return err
		}
		runs, err := r.Runs(store.RunQuery{})
		if err != nil {
			return err
		}
		n = [3]int{len(threads), len(runs), 0}
		for _, row := range threads {
			list, err := r.Entries(store.EntryQuery{Thread: row.ID})
			if err != nil {
				return err
			}
			n[2] += len(list)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func write(t *testing.T, s *Store, c *store.Changes) error {
	return s.Update(t.Context(), func(tx store.Tx) error { return tx.Write(c) })
}

func TestNewRowsShareStatements(t *testing.T) {
	s := openTest(t, Options{})
	if err := write(t, s, newBatch(t, "first", 1)); err != nil {
		t.Fatal(err)
	}
	statements := func(name string, n int) int64 {
		before := s.Traffic().Statements
		s.written = 0 // the length of the WAL is not read
		if err := write(t, s, newBatch(t, name, n)); err != nil {
			t.Fatal(err)
		}
		return s.Traffic().Statements - before
	}
	one, many := statements("one", 1), statements("many", 1+runsPerInsert)
	if want := one + runsPerInsert + 2; many != want { // each thread has its own, and entries and runs share one each
		t.Errorf("a batch of %d threads takes %d statements, and one of 1 thread %d; want %d",
			1+runsPerInsert, many, one, want)
	}
}

// A batch whose ninth run exists already leaves nothing behind, neither in the file nor for the next batch.
func TestARefusedRowOfSeveralRefusesThemAll(t *testing.T) {
	s := openTest(t, Options{})
	if err := write(t, s, newBatch(t, "a", 1)); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{20, 16, 12} {
		twice := newBatch(t, "b", n)
		twice.Runs[9].ID = "r-a-00"
		err := write(t, s, twice)
		if mailroom.CodeOf(err) != mailroom.CodeInternal || !strings.Contains(fmt.Sprint(err), "run.id") {
			t.Errorf("%d runs: got error %v, want one of code internal about the id of a run", n, err)
		}
		if got := rows(t, s); got != [3]int{1, 1, 1} {
			t.Errorf("%d runs: the store has %v threads, runs and entries after the error, want one of each", n, got)
		}
	}
	if err := write(t, s, newBatch(t, "c", 20)); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, s); got != [3]int{21, 21, 21} {
		t.Errorf("the store has %v threads, runs and entries, want 21 of each", got)
	}
}

// The error of a row that waits for others of its statement comes before that of a later row.
func TestTheFirstBadRowIsReported(t *testing.T) {
	s := openTest(t, Options{})
	if err := write(t, s, newBatch(t, "a", 1)); err != nil {
		t.Fatal(err)
	}
	c := newBatch(t, "b", 4)
	c.Runs[1].ID, c.Runs[3].Thread = "r-a-00", "none"
	if err := write(t, s, c); !strings.Contains(fmt.Sprint(err), "run.id") {
		t.Errorf("got error %v, want one about the id of the second run", err)
	}
	c = newBatch(t, "b", 4)
	c.Runs[1].Key, c.Runs[3].Thread = 1<<40, "none"
	if err := write(t, s, c); err == nil || !strings.Contains(err.Error(), `run "r-b-01"`) {
		t.Errorf("got error %v, want one about the second run, which does not exist", err)
	}
}

// An error of the disk ends the transaction, and a statement after it would commit by itself.
func TestNothingIsWrittenAfterAnErrorOfTheDisk(t *testing.T) {
	for _, n := range []int{1, 15, 16, 20} {
		path := filepath.Join(t.TempDir(), "mail.db")
		s := openAt(t, path, Options{})
		first := newBatch(t, "a", 1)
		if err := write(t, s, first); err != nil {
			t.Fatal(err)
		}
		pragma(t, s, "max_page_count = 1") // SQLite uses the current number, so nothing can be added
		c := newBatch(t, "b", n)
		first.Runs[0].Checkpoint = []byte(`"` + strings.Repeat("long ", 100_000) + `"`)
		c.Runs, c.Entries = append(c.Runs, first.Runs[0]), nil
		wantUnavailable(t, write(t, s, c))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if got := rows(t, openAt(t, path, Options{})); got != [3]int{1, 1, 1} {
			t.Errorf("%d new runs: the store has %v threads, runs and entries after the error, want one of each", n, got)
		}
	}
}
