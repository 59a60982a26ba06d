package sqlite

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/auth"
	"mailroom/store"
	"mailroom/store/internal/format"
)

// oldFile makes a database file with the tables of a version and some rows.
func oldFile(t *testing.T, version int64, rows ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mail.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	provider, err := migrator(db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if _, err := db.ExecContext(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// A migration that a kill interrupts has changed nothing, and the next start repeats it.
func TestMigrationIndexesClaimsWithDueThreads(t *testing.T) {
	end := time.Unix(1800000000, 0).UTC()
	due := func(at time.Time, agent string) mailroom.Due { return mailroom.Due{At: at, Agent: agent} }
	rows := []string{"PRAGMA journal_mode = wal", "UPDATE given SET thread = 9",
		"INSERT INTO tally VALUES ('thread', 'ann', '', 5)"}
	for i, row := range []mailroom.Thread{
		{ID: "idle"}, {ID: "waits", Due: due(end, "echo")}, {ID: "held", Worker: "w", Current: "r", Due: due(end, "")},
		{ID: "endless", Worker: "w", Current: "r"},
		{ID: "other", Worker: "v", Current: "r", Due: due(end.Add(-time.Hour), "")},
	} {
		row.Owner, row.Agent = "ann", "echo"
		values := fmt.Sprintf("%d, '%s', 'echo', 'ann', x'%x'", i+1, row.ID, format.AppendThread(nil, &row))
		worker, at, agent, priority, of := "NULL", "NULL", "NULL", "NULL", "NULL"
		if row.Worker != "" {
			worker = "'" + row.Worker + "'"
		}
		if !row.Due.At.IsZero() {
			at, agent, priority = fmt.Sprint(row.Due.At.UnixMicro()), "'"+row.Due.Agent+"'", "0"
		}
		if row.Due.Agent != "" {
			of = "'ann'"
		}
		rows = append(rows, "INSERT INTO thread (key, id, agent, owner, body, worker, due_at, due_agent, due_priority, "+
			"due_alone, due_owner) VALUES ("+strings.Join([]string{values, worker, at, agent, priority, priority, of}, ", ")+")")
	}
	path := oldFile(t, claimsVersion-1, rows...)
	wantClaimsIndexed(t, midway(t, path, func(tx *sql.Tx) error { return moveClaims(t.Context(), tx) }), end)
	wantClaimsIndexed(t, path, end)
}

// midway copies the files while a migration has done its work and has not committed.
func midway(t *testing.T, path string, migrate func(tx *sql.Tx) error) string {
	t.Helper()
	tx, err := openFile(t, path).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := migrate(tx); err != nil {
		t.Fatal(err)
	}
	copied := leaves(t, path, "", "-wal")
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	return copied
}

func wantClaimsIndexed(t *testing.T, path string, end time.Time) {
	t.Helper()
	s := openAt(t, path, Options{})
	ids := func(rows []*mailroom.Thread) (ids []string) {
		for _, row := range rows {
			ids = append(ids, row.ID)
		}
		return ids
	}
	err := s.Update(t.Context(), func(tx store.Tx) error {
		for _, c := range []struct {
			want store.Capacity
			due  []string
		}{
			{store.Capacity{Agent: "echo", Slots: 9}, []string{"waits"}},
			{store.Capacity{Slots: 9}, []string{"other", "held"}},
		} {
			l, _, err := tx.Due(end, []store.Capacity{c.want}, nil)
			if err != nil {
				return err
			}
			if got := ids(l.Threads); !slices.Equal(got, c.due) {
				t.Errorf("%+v: due are %q, want %q", c.want, got, c.due)
			}
		}
		held, err := tx.Threads(store.ThreadQuery{Worker: "w"})
		if got := ids(held); !slices.Equal(got, []string{"endless", "held"}) {
			t.Errorf("the worker holds %q", got)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if found := faults(t, path); len(found) > 0 {
		t.Error(found)
	}
}

func TestMigrationSumsUsageOfThreadsAndTokens(t *testing.T) {
	body := func(row mailroom.Thread) string { return fmt.Sprintf("x'%x'", format.AppendThread(nil, &row)) }
	thread := "INSERT INTO thread (key, id, agent, body) VALUES "
	s := openAt(t, oldFile(t, useVersion-1,
		thread+"(1, 't', 'echo', "+body(mailroom.Thread{ID: "t", Owner: "ann", Agent: "echo", LastSeq: 3})+")",
		thread+"(2, 'empty', 'echo', "+body(mailroom.Thread{ID: "empty", Owner: "ann", Agent: "echo"})+")",
		thread+"(3, 'other', 'echo', "+body(mailroom.Thread{ID: "other", Owner: "bob", Agent: "echo"})+")",
		"INSERT INTO entry (thread, last_seq, first_seq, lines) VALUES (1, 2, 1, CAST('{\"ä\":1}'||char(10)||'{\"b\":2}' AS BLOB))",
		"INSERT INTO entry (thread, last_seq, first_seq, lines) VALUES (1, 3, 3, CAST('{}' AS BLOB))",
		"INSERT INTO token (name, sum, namespace) VALUES ('ann', '1', ''), ('bob', '2', ''), ('new', '3', '')",
		"INSERT INTO worker (id, host, pid, local, dead, owner) VALUES ('w', '', 1, 0, 0, 'bob'), ('x', '', 1, 0, 1, 'bob')",
	), Options{})
	const bytes = 8 + 7 + 2
	err := s.View(t.Context(), func(r store.Reader) error {
		rows, err := r.Tokens()
		for i, want := range []auth.Use{{Threads: 2, Bytes: bytes}, {Threads: 1, Workers: 1}, {}} {
			if err == nil && rows[i].Used != want {
				t.Errorf("%s has %+v, want %+v", rows[i].Name, rows[i].Used, want)
			}
		}
		threads, err := r.Threads(store.ThreadQuery{IDs: []string{"t"}})
		if err == nil && threads[0].Bytes != bytes {
			t.Errorf("the log has %d bytes, want %d", threads[0].Bytes, bytes)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestMigrationCountsRunsAndThreads(t *testing.T) {
	thread := func(key int, row mailroom.Thread) string {
		return fmt.Sprintf("INSERT INTO thread (key, id, agent, body) VALUES (%d, '%s', 'echo', x'%x')", key, row.ID,
			format.AppendThread(nil, &row))
	}
	run := func(key, of int, agent, status string) string {
		row := mailroom.Run{ID: fmt.Sprint("r", key), Agent: agent, Status: mailroom.Status(status)}
		return fmt.Sprintf(
			"INSERT INTO run (key, id, thread, agent, status, first_seq, body) VALUES (%d, '%s', %d, '%s', '%s', 1, x'%x')",
			key, row.ID, of, agent, status, format.AppendRun(nil, &row))
	}
	s := openAt(t, oldFile(t, countVersion-1,
		thread(1, mailroom.Thread{ID: "t", Owner: "ann", DeliverTo: "chat"}),
		thread(2, mailroom.Thread{ID: "u", Owner: "bob"}),
		thread(3, mailroom.Thread{ID: "v", Owner: "ann"}),
		run(1, 1, "x", "completed"), run(2, 1, "x", "completed"), run(3, 1, "y", "failed"), run(4, 3, "x", "queued"),
		run(5, 2, "x", "completed"),
	), Options{})
	ann := "ann"
	err := s.View(t.Context(), func(r store.Reader) error {
		all, err := r.Count(store.CountQuery{})
		want := store.Counts{Threads: 3, Runs: map[mailroom.Status]int{mailroom.StatusCompleted: 3, mailroom.StatusFailed: 1,
			mailroom.StatusQueued: 1}}
		if diff := cmp.Diff(want, all); diff != "" || err != nil {
			t.Errorf("all (-want +got): %v %s", err, diff)
		}
		hers, err := r.Count(store.CountQuery{Owner: &ann, Agent: "x"})
		want = store.Counts{Runs: map[mailroom.Status]int{mailroom.StatusCompleted: 2, mailroom.StatusQueued: 1}}
		if diff := cmp.Diff(want, hers); diff != "" || err != nil {
			t.Errorf("of ann and x (-want +got): %v %s", err, diff)
		}
		sources, err := r.Threads(store.ThreadQuery{DeliverTo: "chat"})
		if len(sources) != 1 || sources[0].ID != "t" {
			t.Errorf("%d threads deliver to the chat, want t", len(sources))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestMigrationCountsInboxes(t *testing.T) {
	thread := func(key int, id string) string {
		row := mailroom.Thread{ID: id, Agent: "echo", Owner: "ann", Bytes: 7}
		return fmt.Sprintf("INSERT INTO thread (key, id, agent, body) VALUES (%d, '%s', 'echo', x'%x')", key, id,
			format.AppendThread(nil, &row))
	}
	s := openAt(t, oldFile(t, inboxVersion-1,
		thread(1, "project:p"), thread(2, "project:q"), thread(3, "t"),
		`INSERT INTO cursor (channel, identity, position) VALUES ('project:p', 'x', '{}'), ('project:p', 'y', '{}'), ('t', 'x', '1'), ('chat', '', '2')`,
		"INSERT INTO token (name, sum, namespace) VALUES ('ann', '1', '')",
	), Options{})
	err := s.View(t.Context(), func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{Oldest: true})
		for i, want := range []int64{2, 0, 0} {
			if err == nil && (rows[i].Inboxes != want || rows[i].Bytes != 7) {
				t.Errorf("%s has %d inboxes and %d bytes, want %d and 7", rows[i].ID, rows[i].Inboxes, rows[i].Bytes, want)
			}
		}
		tokens, err := r.Tokens()
		if err == nil && tokens[0].Used != (auth.Use{}) {
			t.Errorf("use of the token %+v, want none", tokens[0].Used)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestMigrationKeepsTheKeysAndTheRevision(t *testing.T) {
	s := openAt(t, oldFile(t, 31,
		"UPDATE given SET thread = 7, run = 9, revision = 11, entry_row = 13",
		"UPDATE given SET removed_row = 2, removed_thread = 3, removed_seq = 4",
	), Options{})
	c := newBatch(t, "a", 1)
	if err := write(t, s, c); err != nil {
		t.Fatal(err)
	}
	if got := [2]int64{c.Threads[0].Key, c.Runs[0].Key}; got != [2]int64{8, 10} {
		t.Errorf("the next keys of a thread and a run are %v, want 8 and 10", got)
	}
	if got, err := commitsOf(t.Context(), s.writer); err != nil || got != 12 {
		t.Errorf("the revision after a commit is %d, %v, want 12", got, err)
	}
	err := s.View(t.Context(), func(r store.Reader) error {
		all := store.AllEntries{}
		if _, err := r.Entries(store.EntryQuery{All: &all}); err != nil {
			return err
		}
		if want := (store.Position{Commit: 2, Thread: 3, Seq: 4}); all.Removed != want || all.End != store.StartOf(15) {
			t.Errorf("the entries end at %v, and those until %v are removed; want %v and %v",
				all.End, all.Removed, store.StartOf(15), want)
		}
		counts, err := r.Count(store.CountQuery{ByAgent: true})
		if err == nil && len(counts.Agents) != 1 {
			t.Errorf("runs are counted for the agents %v, want one agent", counts.Agents)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestMigrationKeepsTheUseOfTokens(t *testing.T) {
	s := openAt(t, oldFile(t, 33,
		"INSERT INTO token (name, sum, namespace, threads, bytes, workers) VALUES ('ann', '1', '', 2, 30, 4)",
		"UPDATE token SET notifications = 5",
		"INSERT INTO token (name, sum, namespace) VALUES ('bob', '2', '')",
		"INSERT INTO tally (what, owner, agent, n) VALUES ('thread', 'ann', '', 2)",
	), Options{})
	want := map[string]auth.Use{"ann": {Threads: 2, Bytes: 30, Workers: 4, Notifications: 5}, "bob": {}}
	wantUse := func() {
		t.Helper()
		got := map[string]auth.Use{}
		err := s.View(t.Context(), func(r store.Reader) error {
			rows, err := r.Tokens()
			for _, row := range rows {
				got[row.Name] = row.Used
			}
			return err
		})
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("use (-want +got): %v %s", err, diff)
		}
	}
	wantUse()
	if err := write(t, s, &store.Changes{Use: []store.UseChange{{Token: "ann", Add: auth.Use{Threads: -1, Bytes: 3}},
		{Token: "gone", Add: auth.Use{Bytes: 1}}}}); err != nil {
		t.Fatal(err)
	}
	want["ann"] = auth.Use{Threads: 1, Bytes: 33, Workers: 4, Notifications: 5}
	wantUse()
	again := &auth.Token{Name: "ann", Used: auth.Use{Bytes: 7}}
	if err := write(t, s, &store.Changes{DropTokens: []string{"ann"}, Tokens: []*auth.Token{again}}); err != nil {
		t.Fatal(err)
	}
	want["ann"] = auth.Use{Bytes: 7}
	wantUse()
}

// A submit by a token changes its use and its counts, and their rows are on one page.
func TestTheUseOfATokenIsInATableWithTheCounts(t *testing.T) {
	s := openTest(t, Options{})
	want := "SEARCH t USING INDEX sqlite_autoindex_token_1 (name=?); " +
		"SEARCH u USING PRIMARY KEY (what=? AND owner=? AND agent=?) LEFT-JOIN"
	if got := strings.Join(explain(t, s, readTokens+"WHERE t.name = ?"), "; "); got != want {
		t.Errorf("got plan %q, want %q", got, want)
	}
	want = "SEARCH tally USING PRIMARY KEY (what=? AND owner=? AND agent=?)"
	if got := strings.Join(explain(t, s, addUse), "; "); got != want {
		t.Errorf("got plan %q, want %q", got, want)
	}
}
