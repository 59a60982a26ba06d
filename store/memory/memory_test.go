package memory_test

import (
	"slices"
	"testing"

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
