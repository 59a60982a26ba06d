package doctor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/doctor"
	"mailroom/store"
	"mailroom/store/memory"
)

// miscounted is a store that returns wrong counts for some queries.
type miscounted struct {
	store.Store
	spoil func(store.CountQuery, *store.Counts)
}

type miscountedReader struct {
	store.Reader
	spoil func(store.CountQuery, *store.Counts)
}

func (s miscounted) View(ctx context.Context, f func(store.Reader) error) error {
	return s.Store.View(ctx, func(r store.Reader) error { return f(miscountedReader{r, s.spoil}) })
}

func (r miscountedReader) Count(q store.CountQuery) (store.Counts, error) {
	c, err := r.Reader.Count(q)
	r.spoil(q, &c)
	return c, err
}

func TestCountsThatDifferFromTheRowsAreFound(t *testing.T) {
	s := memory.New()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := &store.Changes{
		Threads: []*mailroom.Thread{
			{ID: "a", Owner: "ann", FirstSeq: 1, NextPlace: 1, CreatedAt: at},
			{ID: "b", Owner: "bob", FirstSeq: 1, NextPlace: 1, CreatedAt: at, DeletedAt: at},
		},
		Runs: []*mailroom.Run{
			{ID: "r", Thread: "a", Agent: "x", Status: mailroom.StatusCompleted}, {ID: "s", Thread: "b", Agent: "x", Status: mailroom.StatusFailed},
		},
	}
	if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.Write(c) }); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, want string
		spoil      func(store.CountQuery, *store.Counts)
	}{
		{"right", "", func(store.CountQuery, *store.Counts) {}},
		{"of a status", `owner "ann" has 1 completed runs of agent "x", the store counts 2`, func(q store.CountQuery, c *store.Counts) {
			if q.Agent == "x" && *q.Owner == "ann" {
				c.Runs[mailroom.StatusCompleted]++
			}
		}},
		{"of threads", `owner "bob" has 1 threads and 1 runs, the store counts 0 and 1`, func(q store.CountQuery, c *store.Counts) {
			if q.Agent == "" && q.Owner != nil && *q.Owner == "bob" {
				c.Threads--
			}
		}},
		{"of missing runs", "the store counts 2 and map[completed:1 failed:1 queued:1]", func(q store.CountQuery, c *store.Counts) {
			if q.Owner == nil {
				c.Runs[mailroom.StatusQueued]++
			}
		}},
		{"of the first due time", "the store reports 2026", func(q store.CountQuery, c *store.Counts) {
			if q.Owner == nil {
				c.Due = at
			}
		}},
	} {
		report, err := doctor.Check(t.Context(), miscounted{s, tc.spoil})
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, f := range report.Findings {
			if f.Invariant == doctor.Count {
				found = append(found, f.Text)
			}
		}
		got := strings.Join(found, "\n")
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got findings %q, want %q", tc.name, got, tc.want)
		}
	}
}
