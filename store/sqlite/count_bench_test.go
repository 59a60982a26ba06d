package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"mailroom"
	"mailroom/store"
)

// BenchmarkCount counts and lists the rows of a short and a long history. The number of runs must
// not affect the cost.
func BenchmarkCount(b *testing.B) {
	for _, n := range []int{6_000, 120_000} {
		s := open(b, filepath.Join(b.TempDir(), "mail.db"))
		fillHistory(b, s, n)
		owner := "owner-1"
		for name, ask := range map[string]func(store.Reader) error{
			"all":   func(r store.Reader) error { _, err := r.Count(store.CountQuery{}); return err },
			"owner": func(r store.Reader) error { _, err := r.Count(store.CountQuery{Owner: &owner}); return err },
			"running": func(r store.Reader) error {
				_, err := r.Runs(store.RunQuery{Statuses: []mailroom.Status{mailroom.StatusRunning}, Limit: 51})
				return err
			},
			"retriable": func(r store.Reader) error {
				_, err := r.Runs(store.RunQuery{Statuses: []mailroom.Status{mailroom.StatusFailed, mailroom.StatusCancelled},
					Oldest: true, Limit: 51})
				return err
			},
			"agent": func(r store.Reader) error {
				_, err := r.Runs(store.RunQuery{Agent: "rare", Limit: 51})
				return err
			},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					if err := s.View(b.Context(), ask); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// fillHistory writes ended runs, ten of each other status, and fifty of a rare agent at the very
// beginning.
func fillHistory(b *testing.B, s store.Store, n int) {
	b.Helper()
	rows := make([]*mailroom.Thread, 100)
	for i := range rows {
		rows[i] = &mailroom.Thread{ID: fmt.Sprint("t", i), Owner: fmt.Sprint("owner-", i%5), FirstSeq: 1}
	}
	for from := 0; from < n; from += 1000 {
		c := &store.Changes{Threads: rows}
		for i := from; i < from+1000; i++ {
			r := &mailroom.Run{ID: fmt.Sprint("r", i), Thread: rows[i%100].ID, Agent: fmt.Sprint("agent-", i%3),
				Status: mailroom.StatusCompleted}
			switch {
			case i < 50:
				r.Agent = "rare"
			case i < 60:
				r.Status = mailroom.StatusRunning
			case i < 200:
				r.Status = mailroom.StatusFailed
			case i < 300:
				r.Status = mailroom.StatusCancelled
			}
			c.Runs = append(c.Runs, r)
		}
		if err := s.Update(b.Context(), func(tx store.Tx) error { return tx.Write(c) }); err != nil {
			b.Fatal(err)
		}
	}
}
