package sqlite

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"mailroom"
	"mailroom/store"
)

// revise updates worker w and thread t, whose known version is that of last, and returns them as
// they were read.
func revise(t *testing.T, s *Store, last *mailroom.Thread, host string) (w store.Worker, row *mailroom.Thread) {
	t.Helper()
	err := s.Update(t.Context(), func(tx store.Tx) error {
		l, err := tx.Load(store.Need{Workers: []string{"w"}, Threads: []string{"t"}, Known: func(string) store.Version {
			return store.VersionOf(last)
		}})
		if err != nil {
			return err
		}
		w = store.Worker{ID: "w"}
		if l.Workers[0] != nil {
			w = *l.Workers[0]
		}
		read := *l.Threads[0]
		if row = &read; store.VersionOf(row) == store.VersionOf(last) && row.Key != 0 {
			kept := *last
			row = &kept
		}
		next, written := w, *row
		next.Host, next.LeaseUntil = host, tx.Now()
		written.Revision++
		written.Agent = host
		if err := tx.Write(&store.Changes{Workers: []*store.Worker{&next},
			Threads: []*mailroom.Thread{&written}}); err != nil {
			return err
		}
		*last = written
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return w, row
}

// A handle sees what other handles of the file have committed, although it keeps rows in memory.
func TestAHandleSeesWhatAnotherHandleHasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	a, b := openAt(t, path, Options{}), openAt(t, path, Options{})
	ofA, ofB := &mailroom.Thread{ID: "t"}, &mailroom.Thread{ID: "t"}
	revise(t, a, ofA, "a1")
	revise(t, a, ofA, "a2")
	if w, row := revise(t, b, ofB, "b1"); w.Host != "a2" || row.Agent != "a2" {
		t.Errorf("the other handle read host %q and agent %q, want a2", w.Host, row.Agent)
	}
	if w, row := revise(t, a, ofA, "a3"); w.Host != "b1" || row.Agent != "b1" {
		t.Errorf("the handle read host %q and agent %q, want b1", w.Host, row.Agent)
	}
	mustPut(t, b, "of b")
	mustPut(t, a, "of a") // the store would refuse a key that both handles chose
	if n := count(t, a); n != 3 {
		t.Errorf("got %d threads, want 3", n)
	}
}

func TestAHandleForgetsWhatARolledBackTransactionWrote(t *testing.T) {
	s := openTest(t, Options{})
	last := &mailroom.Thread{ID: "t"}
	revise(t, s, last, "one")
	failed := errors.New("refused")
	err := s.Update(t.Context(), func(tx store.Tx) error {
		row := *last
		row.Revision++
		w := &store.Worker{ID: "w", Host: "never", LeaseUntil: time.Now()}
		if err := tx.Write(&store.Changes{Workers: []*store.Worker{w},
			Threads: []*mailroom.Thread{&row, {ID: "never"}}}); err != nil {
			return err
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Fatalf("got error %v, want %v", err, failed)
	}
	if w, row := revise(t, s, last, "two"); w.Host != "one" || row.Agent != "one" {
		t.Errorf("got host %q and agent %q, want one", w.Host, row.Agent)
	}
	mustPut(t, s, "next")
	if n := count(t, s); n != 2 {
		t.Errorf("got %d threads, want 2", n)
	}
}

// The rows that a transaction gets are its own: what the caller changes in them without writing stays
// unknown to others.
func TestChangingARowFromTheMemoDoesNotChangeTheMemo(t *testing.T) {
	s := openTest(t, Options{})
	err := s.Update(t.Context(), func(tx store.Tx) error {
		return tx.Write(&store.Changes{Workers: []*store.Worker{{ID: "w", Agents: []string{"a"}, Duties: []string{"d"}}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err := s.Update(t.Context(), func(tx store.Tx) error {
			l, err := tx.Load(store.Need{Workers: []string{"w"}})
			if err != nil {
				return err
			}
			w := l.Workers[0]
			if w.Agents[0] != "a" || w.Duties[0] != "d" || w.Host != "" {
				t.Errorf("got %+v, want the written row", w)
			}
			w.Agents[0], w.Duties[0], w.Host = "x", "x", "x"
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
