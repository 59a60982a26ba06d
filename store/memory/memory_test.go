package memory_test

import (
	"fmt"
	"slices"
	"testing"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return memory.New() })
}

func TestChangesOfAForkAndOfItsSourceStayApart(t *testing.T) {
	pause := func(s store.Store, agent string) {
		t.Helper()
		if err := s.Update(t.Context(), func(tx store.Tx) error {
			return tx.Write(&store.Changes{Pauses: []store.Pause{{Agent: agent}}})
		}); err != nil {
			t.Fatal(err)
		}
	}
	source := memory.New()
	pause(source, "both")
	fork := source.Fork()
	pause(fork, "fork")
	pause(source, "source")
	for s, want := range map[*memory.Store][]string{source: {"both", "source"}, fork: {"both", "fork"}} {
		var got []string
		if err := s.View(t.Context(), func(r store.Reader) error {
			rows, err := r.Agents()
			for _, p := range rows.Pauses {
				got = append(got, p.Agent)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("pauses of %v, want %v", got, want)
		}
	}
}

// TestAForkAndItsSourceAppendToListsOfTheirOwn appends to a thread that has entries and runs, because an append in
// place would write to the array of both.
func TestAForkAndItsSourceAppendToListsOfTheirOwn(t *testing.T) {
	row := &mailroom.Thread{ID: "t", Agent: "echo", FirstSeq: 1, NextPlace: 1}
	add := func(s store.Store, run string) {
		t.Helper()
		if err := s.Update(t.Context(), func(tx store.Tx) error {
			if _, err := tx.Load(store.Need{Threads: []string{row.ID}}); err != nil {
				return err
			}
			row.LastSeq++
			e, err := entry.New(row.ID, row.LastSeq, entry.KindQueued, run, 0, tx.Now(), struct{}{})
			if err != nil {
				return err
			}
			return tx.Write(&store.Changes{
				Threads: []*mailroom.Thread{row},
				Runs: []*mailroom.Run{{
					ID: run, Thread: row.ID, FirstSeq: row.LastSeq, Status: mailroom.StatusQueued,
				}},
				Entries: [][]mailroom.Entry{{e}},
			})
		}); err != nil {
			t.Fatal(err)
		}
	}
	source := memory.New()
	for i := range 3 { // a list of three has room for a fourth
		add(source, fmt.Sprint("both", i))
	}
	fork := source.Fork()
	add(fork, "fork")
	row.LastSeq--
	add(source, "source")
	for s, want := range map[*memory.Store]string{source: "source", fork: "fork"} {
		if err := s.View(t.Context(), func(r store.Reader) error {
			entries, err := r.Entries(store.EntryQuery{Thread: row.ID, After: 3})
			if err != nil || len(entries) != 1 || entries[0].Run != want {
				t.Errorf("the entries of the %s are %v, %v", want, entries, err)
			}
			runs, err := r.Runs(store.RunQuery{Thread: row.ID})
			if !slices.ContainsFunc(runs, func(run *mailroom.Run) bool { return run.ID == want }) {
				t.Errorf("the runs of the %s are %v", want, runs)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
