package storetest

import (
	"errors"
	"slices"
	"testing"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/store"
)

func viewCases() []testCase {
	return []testCase{
		{"returns f's error as it is", func(t *testing.T, s *handle) {
			refused := errors.New("refused by the test")
			if err := s.View(t.Context(), func(store.Reader) error { return refused }); err != refused {
				t.Errorf("got error %v, want the one that f returned", err)
			}
		}},
		{"does not wait for an Update and does not see its writes", func(t *testing.T, s *handle) {
			s.write(fullChanges())
			before := s.everything()
			s.update(func(tx store.Tx) {
				_, rows, err := Lock(tx, nil, []string{"t"})
				must(t, err)
				rows[0].Agent = "changed"
				must(t, tx.Write(&store.Changes{
					Threads: append(rows, thread("new")),
					Entries: [][]mailroom.Entry{entries("t", 3, "r", entry.KindStep)},
				}))
				wantSame(t, "rows seen while an update runs", s.everything(), before)
			})
		}},
		{"is one snapshot while other transactions commit", func(t *testing.T, s *handle) {
			s.write(fullChanges())
			s.view(func(r store.Reader) {
				before := read(t, r)
				s.update(func(tx store.Tx) {
					_, rows, err := Lock(tx, nil, []string{"t"})
					must(t, err)
					rows[0].Agent = "changed"
					must(t, tx.Write(&store.Changes{
						Threads:         append(rows, thread("new")),
						Runs:            []*mailroom.Run{run("r2", "t")},
						Entries:         [][]mailroom.Entry{entries("t", 3, "r", entry.KindStep)},
						DropPartials:    []string{"r"},
						DropWorkers:     []string{"w"},
						DropThreads:     []string{"bare"},
						Tickets:         []*mailroom.Ticket{ticket("q2", "r2", "t")},
						Tokens:          []*auth.Token{{Name: "bob"}},
						Definitions:     []store.Definition{{Agent: "a", Version: "1"}},
						DropEntries:     []store.Prefix{{Thread: "t", Seq: 2}},
						DropDefinitions: before.Kept,
						DropCursors:     before.Cursors,
						DropMeters:      []string{before.Meters[0].Key},

						DropReservations: []string{"v"},
					}))
				})
				wantSame(t, "rows seen after another's commit", read(t, r), before)
			})
			if got, want := seqs(s.everything().Entries["t"]), []int64{2, 3}; !slices.Equal(got, want) {
				t.Errorf("entries of the next view: got %v, want %v", got, want)
			}
		}},
		{"views run concurrently", func(t *testing.T, s *handle) {
			s.write(fullChanges())
			s.view(func(store.Reader) {
				s.view(func(r store.Reader) {
					if got := len(get(r.Threads(store.ThreadQuery{}))(t)); got != 2 {
						t.Errorf("got %d threads, want 2", got)
					}
				})
			})
		}},
	}
}
