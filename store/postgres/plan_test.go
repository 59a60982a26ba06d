package postgres

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/pgtest"
	"mailroom/store"
)

// usual are rows of every kind.
func usual(t *testing.T, at time.Time) *store.Changes {
	t.Helper()
	e, err := entry.New("t", 1, entry.KindStep, "r", 1, at, json.RawMessage(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	row := due("t", "a", at)
	row.Current, row.LastSeq, row.DeliverTo = "r", 1, "u"
	return &store.Changes{
		Threads: []*mailroom.Thread{row, due("u", "a", at)},
		Runs: []*mailroom.Run{
			{ID: "r", Thread: "t", FirstSeq: 1, Status: mailroom.StatusRunning, SubmitKey: "k"},
			{ID: "q", Thread: "t", FirstSeq: 1, Status: mailroom.StatusQueued},
		},
		Entries: [][]mailroom.Entry{{e}},
		Keys: []store.SubmitKey{{Thread: "t", Key: "k",
			Result: store.Submitted{Run: "r", Disposition: store.DispositionQueued}}},
		Partials:     []store.Partial{{Thread: "t", Run: "r", Text: "x"}},
		Workers:      []*store.Worker{{ID: "w"}},
		Tickets:      []*mailroom.Ticket{{ID: "k", Run: "r", Thread: "t", State: mailroom.TicketOpen}},
		Tokens:       []*auth.Token{{Name: "ann", Used: auth.Use{Threads: 1}}},
		Definitions:  []store.Definition{{Agent: "a", Version: "1"}},
		Cursors:      []store.Cursor{{Channel: "c", Identity: "i"}},
		Reservations: []store.Reservation{{ID: "v", Thread: "t"}},
		Summaries: []store.Summary{{Key: store.SummaryKey{Step: store.StepDay, Agent: "a", At: time.UnixMicro(0).UTC(),
			Status: mailroom.StatusFailed}}},
	}
}

// The cost of an Update must not grow with the rows that it does not touch.
func TestTheWriterScansNoTable(t *testing.T) {
	s := openIn(t, pgtest.Shared(t).Schema(t), "node")
	defer closeStore(t, s)
	at := time.UnixMicro(1_000_000).UTC()
	c := usual(t, at)
	write(t, s, c)
	update(t, s, func(g store.Tx) error {
		if _, err := g.Load(store.Need{
			Topics: []string{"x"}, Workers: []string{"w"}, Threads: []string{"t", "u"}, Queues: []string{"t", "u"},
			Runs: []string{"q"},
			Keys: []store.KeyRef{{Thread: "t", Key: "k"}}, Tokens: []string{"ann"},
		}); err != nil {
			return err
		}
		for _, share := range []*store.Share{nil, {Most: 1}} {
			if _, _, err := g.Due(at, []store.Capacity{{Agent: "a", Slots: 3, Share: share}}, nil); err != nil {
				return err
			}
		}
		c.Runs[0].Status = mailroom.StatusCompleted
		c.Runs[1].Status, c.Runs[1].ErrorGroup = mailroom.StatusFailed, "g"
		c.Entries, c.Keys = nil, nil
		c.Use = []store.UseChange{{Token: "ann", Add: auth.Use{Bytes: 1}}}
		message := store.IndexRow{Thread: c.Threads[0].Key, Seq: 1, Content: 1, Words: []string{"hello"}}
		c.Index = &store.Indexing{After: store.IndexState{Last: 1}, Rows: []store.IndexRow{message},
			Drop: []store.IndexRow{message}}
		if err := g.Write(c); err != nil {
			return err
		}
		for _, status := range []mailroom.Status{mailroom.StatusFailed, mailroom.StatusQueued} {
			c.Runs[1].Status, c.Runs[1].ErrorGroup = status, ""
			if err := g.Write(&store.Changes{Runs: c.Runs[1:]}); err != nil {
				return err
			}
		}
		if err := g.Write(&store.Changes{
			DropPartials: []string{"r"}, DropWorkers: []string{"w"}, DropEntries: []store.Prefix{{Thread: "t", Seq: 2}},
			DropDefinitions: c.Definitions, DropCursors: c.Cursors, DropReservations: []string{"v"}, DropThreads: []string{"u"},
			DropSummaries: []store.SummariesBefore{{Step: store.StepDay, At: at}},
		}); err != nil {
			return err
		}
		return g.(*tx).query("read statistics", func(c *columns) error {
			t.Errorf("table %s was read from its begin to its end %d times", c.Text(), c.Int64())
			return nil
		}, "SELECT relname::text, seq_scan FROM pg_stat_xact_user_tables WHERE seq_scan > 0 AND schemaname = $1",
			s.options.Schema)
	})
}

// The cost of Due must grow with the number of owners, agents and priorities, not with their threads.
func TestTheQueryForDueThreadsReadsFewRows(t *testing.T) {
	s := openIn(t, pgtest.Shared(t).Schema(t), "node")
	defer closeStore(t, s)
	at := time.UnixMicro(1_000_000).UTC()
	var c store.Changes
	for i := range 600 {
		row := due(fmt.Sprint("t", i), []string{"a", "b"}[i%2], at)
		row.Owner, row.Due.Priority = []string{"", "ann", "bob"}[i%3], i%2
		c.Threads = append(c.Threads, row)
	}
	write(t, s, &c)
	update(t, s, func(g store.Tx) error {
		for _, share := range []*store.Share{nil, {Most: 1}} {
			if _, _, err := g.Due(at, []store.Capacity{{Agent: "a", Slots: 9, Share: share}}, nil); err != nil {
				return err
			}
		}
		if _, err := g.Threads(store.ThreadQuery{OnePerAgent: true}); err != nil {
			return err
		}
		return writerOf(g).query("read statistics", func(c *columns) error {
			if n := c.Int64(); n > 100 {
				t.Errorf("read %d rows of 600 threads to find 12", n)
			}
			return nil
		}, "SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'thread' AND schemaname = $1",
			s.options.Schema)
	})
}

// The cost of a page of the log of all threads must not grow with the entries behind it.
func TestAPageOfAllEntriesReadsFewRows(t *testing.T) {
	s := openIn(t, pgtest.Shared(t).Schema(t), "node")
	defer closeStore(t, s)
	var all store.AllEntries
	for commit := range 60 {
		c := &store.Changes{}
		for i := range 10 {
			id := fmt.Sprint("t", commit, "-", i)
			e, err := entry.New(id, 1, entry.KindStep, "", 0, time.UnixMicro(1).UTC(), json.RawMessage(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			c.Threads, c.Entries = append(c.Threads, &mailroom.Thread{ID: id, LastSeq: 1}),
				append(c.Entries, []mailroom.Entry{e})
		}
		write(t, s, c)
		if commit == 1 { // the statistics know no later position
			if _, err := s.writer.conn.Exec(t.Context(), "ANALYZE entry"); err != nil {
				t.Fatal(err)
			}
			if err := s.View(t.Context(), func(r store.Reader) error {
				_, err := r.Entries(store.EntryQuery{All: &all})
				all.After = all.Positions[len(all.Positions)-1]
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.View(t.Context(), func(r store.Reader) error {
		if found, err := r.Entries(store.EntryQuery{All: &all, Limit: 10}); err != nil || len(found) != 10 {
			t.Errorf("got %d entries, %v", len(found), err)
		}
		return r.(reader).query("read statistics", func(c *columns) error {
			if n := c.Int64(); n > 2*entryRows {
				t.Errorf("read %d rows of 600 for a page of 10", n)
			}
			return nil
		}, "SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'entry' AND schemaname = $1", s.options.Schema)
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAnUpdateTakesTwoRoundTrips(t *testing.T) {
	s := openIn(t, pgtest.Shared(t).Schema(t), "node")
	defer closeStore(t, s)
	c := usual(t, time.UnixMicro(1_000_000).UTC())
	write(t, s, c)
	before := s.Traffic()
	const updates = 3
	for range updates {
		update(t, s, func(g store.Tx) error {
			l, err := g.Load(store.Need{
				Topics: []string{"x"}, Workers: []string{"w"}, Threads: []string{"t", "u", "new"}, Queues: []string{"t"},
				Runs: []string{"q"},
				Keys: []store.KeyRef{{Thread: "t", Key: "k"}}, Tokens: []string{"ann"},
			})
			if err != nil {
				return err
			}
			if g.Now().IsZero() {
				t.Error("the time is zero")
			}
			return g.Write(&store.Changes{Threads: l.Threads, Runs: c.Runs, Workers: l.Workers, Tickets: c.Tickets})
		})
	}
	after := s.Traffic()
	if got, want := (Traffic{after.Updates - before.Updates, after.Tries - before.Tries,
		after.Trips - before.Trips}), (Traffic{updates, updates, 2 * updates}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A step of a run and its end change no column of an index of runs, so PostgreSQL adds no row version
// to the indexes.
func TestAStepChangesNoIndexedColumn(t *testing.T) {
	s := openIn(t, pgtest.Shared(t).Schema(t), "node")
	defer closeStore(t, s)
	c := usual(t, time.UnixMicro(1_000_000).UTC())
	write(t, s, c)
	for i := range 3 {
		update(t, s, func(g store.Tx) error {
			c.Threads[0].Revision++
			c.Runs[0].Step++
			if i == 2 {
				c.Runs[0].Status = mailroom.StatusCompleted
			}
			if err := g.Write(&store.Changes{Threads: c.Threads[:1], Runs: c.Runs[:1]}); err != nil {
				return err
			}
			updated := 0
			err := g.(*tx).query("read statistics", func(c *columns) error {
				name, all, hot := c.Text(), c.Int64(), c.Int64()
				if name == "tally" { // one page may have no room for another version
					return nil
				}
				updated += int(all)
				if hot != all {
					t.Errorf("table %s: %d of %d updates touched no index", name, hot, all)
				}
				return nil
			},
				"SELECT relname::text, n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE n_tup_upd > 0 AND schemaname = $1", s.options.Schema)
			if updated < 2 { // PostgreSQL may still count those of earlier transactions
				t.Errorf("got %d updates, want those of a thread and a run", updated)
			}
			return err
		})
	}
}
