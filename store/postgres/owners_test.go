package postgres

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"mailroom"
	"mailroom/internal/pgtest"
	"mailroom/store"
	"mailroom/store/internal/format"
)

// manyRuns writes runs of two threads, of ann and of bob. Every 500th is of bob, and every 3rd has failed:
// those of bob with the error group rare, the others with common.
func manyRuns(t *testing.T, s *Store, n int) {
	t.Helper()
	c := &store.Changes{Threads: []*mailroom.Thread{{ID: "t", Owner: "ann"}, {ID: "u", Owner: "bob"}}}
	for i := range n {
		r := &mailroom.Run{ID: fmt.Sprint("r", i+1), Thread: "t", Status: mailroom.StatusCompleted}
		if i%500 == 0 {
			r.Thread = "u"
		}
		if i%3 == 0 {
			r.Status, r.ErrorGroup, r.FinishedAt = mailroom.StatusFailed,
				map[string]string{"t": "common", "u": "rare"}[r.Thread], time.Unix(1, 0)
		}
		c.Runs = append(c.Runs, r)
	}
	write(t, s, c)
}

func wantRuns(t *testing.T, s *Store, q store.RunQuery, want ...string) {
	t.Helper()
	var got []string
	err := s.View(t.Context(), func(r store.Reader) error {
		rows, err := r.Runs(q)
		for _, run := range rows {
			got = append(got, run.ID)
		}
		return err
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v: got %q and error %v, want %q", q, got, err, want)
	}
}

// Runs that are older than the column of owners are in the lists of all owners.
func TestRunsWrittenBeforeTheOwnerMigrationAreFound(t *testing.T) {
	schema := pgtest.Shared(t).Schema(t)
	before, err := released()
	if err != nil {
		t.Fatal(err)
	}
	before.version, before.expand = 4, before.expand[:4]
	old, err := Open(t.Context(), Options{URL: pgtest.Shared(t).URL(), Schema: schema, AllowUnsafe: true, code: &before})
	if err != nil {
		t.Fatal(err)
	}
	thread := func(id, owner string) string {
		return fmt.Sprintf("INSERT INTO thread (id, owner, agent, revision, body) VALUES ('%s', '%s', 'echo', 1, '\\x%x');",
			id, owner, format.AppendThread(nil, &mailroom.Thread{ID: id, Owner: owner, Revision: 1}))
	}
	run := func(id, thread string) string {
		return fmt.Sprintf(
			"INSERT INTO run (id, thread, agent, status, first_seq, body) SELECT '%s', key, 'echo', 'completed', 1, '\\x%x' FROM thread WHERE id = '%s';",
			id, format.AppendRun(nil, &mailroom.Run{ID: id, Thread: thread, Status: mailroom.StatusCompleted}), thread)
	}
	exec(t, old, thread("t", "ann")+thread("u", "bob")+run("r1", "t")+run("r2", "u")+run("r3", "t"))
	closeStore(t, old)

	s := openIn(t, schema, "node")
	defer closeStore(t, s)
	for _, name := range []string{"run_owner", "run_unowned", "thread_owner", "thread_agent"} {
		wantIndex(t, s, name)
	}
	update(t, s, func(tx store.Tx) error {
		l, err := tx.Load(store.Need{Threads: []string{"t", "u"}})
		if err != nil {
			return err
		}
		c := &store.Changes{Threads: l.Threads}
		for i := 4; i < 8; i++ {
			c.Runs = append(c.Runs, &mailroom.Run{ID: fmt.Sprint("r", i), Thread: []string{"u", "t"}[i%2]})
		}
		return tx.Write(c)
	})
	type query = store.RunQuery
	wantRuns(t, s, query{Owner: "ann"}, "r7", "r5", "r3", "r2", "r1")
	wantRuns(t, s, query{Owner: "ann", Limit: 3}, "r7", "r5", "r3")
	wantRuns(t, s, query{Owner: "ann", Limit: 2}, "r7", "r5")
	wantRuns(t, s, query{Owner: "ann", Bytes: 1}, "r7")
	wantRuns(t, s, query{Owner: "ann", Bytes: 1 << 20, Limit: 4}, "r7", "r5", "r3", "r2")
	wantRuns(t, s, query{Owner: "ann", From: 3}, "r2", "r1")
	wantRuns(t, s, query{Owner: "bob", Oldest: true}, "r1", "r2", "r3", "r4", "r6")
	wantRuns(t, s, query{Owner: "bob", Oldest: true, From: 2, Limit: 2}, "r3", "r4")
}

// A program that does not know owners and error groups inserts and retries runs during an upgrade.
func TestAnOlderProgramKeepsOwnersAndFailures(t *testing.T) {
	s := openIn(t, pgtest.Shared(t).Schema(t), "node")
	defer closeStore(t, s)
	manyRuns(t, s, 4) // r1 of bob and r4 of ann have failed
	wantRuns(t, s, store.RunQuery{Group: "rare"}, "r1")
	wantRuns(t, s, store.RunQuery{Group: "common"}, "r4")
	exec(t, s,
		"INSERT INTO run (id, thread, agent, status, first_seq, body) SELECT 'r5', thread, agent, status, first_seq, body FROM run WHERE id = 'r1'")
	exec(t, s,
		"UPDATE run SET status = 'queued', pile = 0 WHERE id = 'r1'; UPDATE run SET status = 'failed', pile = 2, place = 1 WHERE id = 'r4'")
	var owner string
	if err := s.writer.conn.QueryRow(t.Context(), "SELECT owner FROM run WHERE id = 'r5'").Scan(&owner); err != nil ||
		owner != "bob" {
		t.Errorf("got owner %q and error %v of an inserted run, want bob", owner, err)
	}
	wantRuns(t, s, store.RunQuery{Group: "rare"})
	wantRuns(t, s, store.RunQuery{Group: "common"}, "r4")
}

// The cost of a list grows with its rows, not with those of other owners and groups.
func TestListsReadFewOfManyRuns(t *testing.T) {
	s := openIn(t, pgtest.Shared(t).Schema(t), "node")
	defer closeStore(t, s)
	manyRuns(t, s, 6000)
	var ann, bob *mailroom.Thread
	err := s.View(t.Context(), func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{"t", "u"}, Oldest: true})
		ann, bob = rows[0], rows[1]
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, statistics := range []string{"no", "new"} {
		if statistics == "new" {
			exec(t, s, "ANALYZE run, failure")
		}
		for _, q := range []store.RunQuery{
			{Owner: "bob", Limit: 5}, {Owner: "bob", From: 3000, Limit: 5}, {Owner: "ann", Limit: 5}, {Owner: "eve", Limit: 5},
			{Owner: "bob", Oldest: true, Limit: 5},
			{Owner: "bob", Group: "common", Limit: 5}, {Owner: "bob", Group: "rare", Limit: 5}, {Owner: "eve", Threads: []int64{bob.Key}, Limit: 5},
			{Owner: "bob", Threads: []int64{ann.Key}, Limit: 5}, {Threads: []int64{ann.Key}, From: 3000, Oldest: true, Limit: 5},
			{Group: "rare", Limit: 5}, {Group: "common", Limit: 5}, {Group: "common", From: 3000, Limit: 5}, {Group: "none", Limit: 5},
		} {
			if q.Group == "common" && q.Owner == "" && statistics == "no" {
				continue // the server sorts the rows of the group until it has statistics, a minute after the first ones
			}
			err := s.View(t.Context(), func(r store.Reader) error {
				before, err := rowsRead(r.(reader), s.options.Schema)
				if err != nil {
					return err
				}
				if _, err := r.Runs(q); err != nil {
					return err
				}
				after, err := rowsRead(r.(reader), s.options.Schema)
				for name, n := range after {
					if n -= before[name]; n > 100 {
						t.Errorf("%+v with %s statistics: read %d rows of %s", q, statistics, n, name)
					}
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// rowsRead returns how many rows of each table the connection has read and not reported to the server
// yet: also those of earlier transactions.
func rowsRead(r reader, schema string) (map[string]int64, error) {
	read := map[string]int64{}
	err := r.query("read statistics", func(c *columns) error {
		name := c.Text()
		read[name] = c.Int64()
		return nil
	},
		"SELECT relname::text, coalesce(idx_tup_fetch, 0) + seq_tup_read FROM pg_stat_xact_user_tables WHERE schemaname = $1",
		schema)
	return read, err
}
