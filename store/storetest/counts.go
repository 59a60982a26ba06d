package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

func countCases() []testCase {
	return []testCase{
		{"match a recount after random changes", countStory},
		{"have the earliest due time", func(t *testing.T, s *handle) {
			at := func(n int) time.Time { return time.Date(2026, 1, 2, 3, 4, n, 0, time.UTC) }
			row := func(id, owner string, due mailroom.Due) *mailroom.Thread {
				return &mailroom.Thread{ID: id, Owner: owner, Due: due}
			}
			s.write(&store.Changes{Threads: []*mailroom.Thread{
				row("a", "ann", mailroom.Due{At: at(5), Agent: "x", Priority: 1}),
				row("b", "ann", mailroom.Due{At: at(3), Agent: "x", Priority: 2, LastAttempt: true}),
				row("c", "bob", mailroom.Due{At: at(4), Agent: "y", Priority: 9}),
				row("d", "bob", mailroom.Due{At: at(2), Agent: "y", Priority: 200}),
				row("e", "ann", mailroom.Due{At: at(1)}), row("f", "cid", mailroom.Due{}),
				// At gates, which nothing can start.
				row("g", "ann", mailroom.Due{At: at(1), Agent: store.GatePrefix + "1 x", Priority: 1, LastAttempt: true}),
				row("h", "bob", mailroom.Due{At: at(0), Agent: store.GatePrefix + "2 x", Priority: 1}),
				row("i", "cid", mailroom.Due{At: at(0), Agent: store.GatePrefix + "3 x", Priority: 1}),
			}})
			for owner, want := range map[string]time.Time{"ann": at(3), "bob": at(2), "cid": {}, "": {}} {
				if got := s.count(store.CountQuery{Owner: &owner}); !got.Due.Equal(want) {
					t.Errorf("of %q: got %v, want %v", owner, got.Due, want)
				}
			}
			if got := s.count(store.CountQuery{}); !got.Due.Equal(at(2)) || got.Threads != 9 {
				t.Errorf("of all: got %d threads, the earliest due at %v, want 9 and %v", got.Threads, got.Due, at(2))
			}
		}},
	}
}

// countStory writes, changes and drops random rows, and compares the store's counts with the rows.
func countStory(t *testing.T, s *handle) {
	draw := rand.New(rand.NewPCG(1, 2))
	owners, agents := []string{"", "ann", "bob"}, []string{"x", "y"}
	statuses := []mailroom.Status{
		mailroom.StatusQueued, mailroom.StatusRunning, mailroom.StatusWaiting, mailroom.StatusCompleted,
		mailroom.StatusFailed, mailroom.StatusCancelled,
	}
	runs := 0
	for step := range 60 {
		s.update(func(tx store.Tx) {
			id := fmt.Sprint("t", draw.IntN(5))
			_, rows, err := Lock(tx, nil, []string{id})
			must(t, err)
			row := rows[0]
			c := &store.Changes{Threads: []*mailroom.Thread{row}}
			switch {
			case row.Key == 0:
				row.Owner, row.FirstSeq = owners[draw.IntN(3)], 1
			case draw.IntN(9) == 0:
				must(t, tx.Write(&store.Changes{DropThreads: []string{id}}))
				return
			case draw.IntN(4) == 0:
				c.DropEntries = []store.Prefix{{Thread: id, Seq: 1 + draw.Int64N(row.LastSeq+1)}}
			default:
				if c.Runs, err = tx.Runs(store.RunQuery{Thread: id, Limit: 3}); err != nil {
					t.Error(err)
				}
				for _, r := range c.Runs {
					r.Status = statuses[draw.IntN(6)]
				}
			}
			for range draw.IntN(3) {
				runs++
				row.LastSeq++
				c.Runs = append(c.Runs, &mailroom.Run{
					ID: fmt.Sprint("r", runs), Thread: id, Agent: agents[draw.IntN(2)], FirstSeq: row.LastSeq,
					Status: statuses[draw.IntN(6)],
				})
				e, err := entry.New(id, row.LastSeq, entry.KindStep, "", 0, time.Time{}, entry.StepNamed{})
				must(t, err)
				if len(c.Entries) == 0 {
					c.Entries = [][]mailroom.Entry{nil}
				}
				c.Entries[0] = append(c.Entries[0], e)
			}
			must(t, tx.Write(c))
		})
		s.recount(t, step, owners, agents, statuses)
	}
}

// recount compares all counts with the rows.
func (s *handle) recount(t *testing.T, step int, owners, agents []string, statuses []mailroom.Status) {
	t.Helper()
	threads := get1(t, s, func(r store.Reader) ([]*mailroom.Thread, error) { return r.Threads(store.ThreadQuery{}) })
	rows := get1(t, s, func(r store.Reader) ([]*mailroom.Run, error) { return r.Runs(store.RunQuery{}) })
	for _, r := range rows {
		if r.Stored != r.Status {
			t.Fatalf("after %d steps run %s is read as stored with status %q, want %q", step, r.ID, r.Stored, r.Status)
		}
	}
	of := map[string]string{}
	perOwner := map[string]int{}
	for _, row := range threads {
		of[row.ID] = row.Owner
		perOwner[row.Owner]++
	}
	for _, owner := range append(owners, "*") {
		for _, agent := range append(agents, "") {
			want := map[mailroom.Status]int{}
			for _, r := range rows {
				if (owner == "*" || of[r.Thread] == owner) && (agent == "" || agent == r.Agent) {
					want[r.Status]++
				}
			}
			q := store.CountQuery{Agent: agent}
			wantThreads := len(threads)
			if owner != "*" {
				q.Owner, wantThreads = &owner, perOwner[owner]
			}
			got := s.count(q)
			if diff := cmp.Diff(want, got.Runs); diff != "" {
				t.Fatalf("step %d, owner %q, agent %q (-rows +counts):\n%s", step, owner, agent, diff)
			}
			if agent == "" && got.Threads != wantThreads {
				t.Fatalf("step %d, owner %q: got %d threads, want %d", step, owner, got.Threads, wantThreads)
			}
			for _, status := range statuses {
				q.Statuses = []mailroom.Status{status}
				if n := s.count(q).Sum(); n != want[status] {
					t.Fatalf("step %d, owner %q, agent %q: got %d %s, want %d", step, owner, agent, n, status, want[status])
				}
			}
		}
	}
}

func (s *handle) count(q store.CountQuery) store.Counts {
	s.t.Helper()
	return get1(s.t, s, func(r store.Reader) (store.Counts, error) { return r.Count(q) })
}
