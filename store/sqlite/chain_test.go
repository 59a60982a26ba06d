package sqlite

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/store/internal/format"
)

func newEntry(t *testing.T, thread string, seq int64) mailroom.Entry {
	t.Helper()
	e, err := entry.New(thread, seq, entry.KindStep, "r", 1, time.UnixMicro(seq).UTC(), entry.StepNamed{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func entriesOf(t *testing.T, thread string, first, last int64) (list []mailroom.Entry) {
	t.Helper()
	for seq := first; seq <= last; seq++ {
		list = append(list, newEntry(t, thread, seq))
	}
	return list
}

// oldLog makes a file of the version before the chain: logs of the threads a and b to last, in rows of one to three
// entries, and a thread without entries.
func oldLog(t *testing.T, random *rand.Rand, last int64) string {
	t.Helper()
	rows := []string{"PRAGMA journal_mode = wal",
		"INSERT INTO tally (what, owner, agent, n) VALUES ('thread', 'ann', '', 3)"}
	threads := []string{"a", "b", "empty"}
	for i, id := range threads {
		row := mailroom.Thread{ID: id, Owner: "ann", Agent: "echo", FirstSeq: 1, LastSeq: last}
		const text = "INSERT INTO thread (key, id, agent, owner, body) VALUES (%d, '%s', 'echo', 'ann', x'%x')"
		rows = append(rows, fmt.Sprintf(text, i+1, id, format.AppendThread(nil, &row)))
	}
	at, ends := 0, []int64{0, 0}
	for ends[0] < last || ends[1] < last {
		i := random.IntN(2)
		if ends[i] == last {
			continue
		}
		first, end := ends[i]+1, min(last, ends[i]+1+random.Int64N(3))
		lines, err := format.AppendEntries(nil, entriesOf(t, threads[i], first, end))
		if err != nil {
			t.Fatal(err)
		}
		at += 1 + random.IntN(3)
		const text = "INSERT INTO entry (rowid, thread, last_seq, first_seq, lines) VALUES (%d, %d, %d, %d, x'%x')"
		rows = append(rows, fmt.Sprintf(text, at, i+1, end, first, lines))
		ends[i] = end
	}
	rows = append(rows, fmt.Sprintf("UPDATE tally SET thread = 3, entry_row = %d WHERE what = ''", at))
	return oldFile(t, 32, rows...)
}

// appendLog writes entries up to last to some threads, in rows of some entries.
func appendLog(t *testing.T, s *Store, random *rand.Rand, last int64, threads ...*mailroom.Thread) {
	t.Helper()
	for {
		threads = slices.Clone(threads)
		threads = slices.DeleteFunc(threads, func(row *mailroom.Thread) bool { return row.LastSeq == last })
		if len(threads) == 0 {
			return
		}
		c := &store.Changes{}
		for _, row := range threads {
			if random.IntN(3) == 0 {
				continue
			}
			first := row.LastSeq + 1
			row.LastSeq = min(last, row.LastSeq+1+random.Int64N(4))
			c.Threads = append(c.Threads, row)
			for first <= row.LastSeq { // most in one row
				end := max(first, row.LastSeq-random.Int64N(2))
				c.Entries = append(c.Entries, entriesOf(t, row.ID, first, end))
				first = end + 1
			}
		}
		if err := write(t, s, c); err != nil {
			t.Fatal(err)
		}
	}
}

// wantLog reads lists of entries of a thread whose log has the seqs first to last.
func wantLog(t *testing.T, s *Store, random *rand.Rand, thread string, first, last int64) {
	t.Helper()
	err := s.View(t.Context(), func(r store.Reader) error {
		for range 60 {
			q := store.EntryQuery{Thread: thread, Backward: random.IntN(2) == 0}
			if random.IntN(2) == 0 {
				q.After = random.Int64N(last + 5)
			}
			if random.IntN(2) == 0 {
				q.Before = 1 + random.Int64N(last+5)
			}
			if random.IntN(2) == 0 {
				q.Limit = 1 + random.IntN(9)
			}
			var want []int64
			for seq := max(first, q.After+1); seq <= last && (q.Before == 0 || seq < q.Before); seq++ {
				want = append(want, seq)
			}
			if q.Backward {
				slices.Reverse(want)
			}
			if q.Limit > 0 && len(want) > q.Limit {
				want = want[:q.Limit]
			}
			found, err := r.Entries(q)
			if err != nil {
				return err
			}
			var got []int64
			for _, e := range found {
				got = append(got, e.Seq)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%+v: got the entries %v, want %v", q, got, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A kill during the migration leaves a file of the version before, which the next start migrates.
func TestLogsOfAnOlderVersionGoOnAsChains(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const before, after = 90, 400
	path := oldLog(t, random, before)
	text, err := migrations.ReadFile("migrations/00033_chain.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{midway(t, path, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), string(text))
		return err
	}), path} {
		s := openAt(t, path, Options{})
		wantLog(t, s, random, "a", 1, before)
		rows := []*mailroom.Thread{{ID: "b", LastSeq: before, Key: 2}, {ID: "a", LastSeq: before, Key: 1},
			{ID: "new"}, {ID: "empty", Key: 3}}
		for _, row := range rows {
			row.Owner, row.Agent = "ann", "echo"
		}
		appendLog(t, s, random, before+3, rows...)
		if err := s.Close(); err != nil { // the next transaction knows no thread
			t.Fatal(err)
		}
		s = openAt(t, path, Options{})
		appendLog(t, s, random, after, rows...)
		for _, below := range []int64{1, 45, before + 2, 200, after + 1} {
			for _, id := range []string{"a", "b", "new", "empty"} {
				if err := write(t, s, &store.Changes{DropEntries: []store.Prefix{{Thread: id, Seq: below}}}); err != nil {
					t.Fatal(err)
				}
				wantLog(t, s, random, id, below, after)
			}
			if found := faults(t, path); len(found) > 0 {
				t.Fatal(found)
			}
		}
		appendLog(t, s, random, after+40, rows...) // a log whose last row is removed
		wantLog(t, s, random, "a", after+1, after+40)
		if err := write(t, s, &store.Changes{DropThreads: []string{"a", "b", "new", "empty"}}); err != nil {
			t.Fatal(err)
		}
		if n, err := s.writer.value(t.Context(), "SELECT count(*) FROM entry"); n != int64(0) || err != nil {
			t.Errorf("%v rows of removed threads are left, %v", n, err)
		}
	}
}

func TestTheIndexOfEntriesHasARowForEach32(t *testing.T) {
	s := openTest(t, Options{})
	rows := []*mailroom.Thread{{ID: "a"}, {ID: "b"}}
	appendLog(t, s, rand.New(rand.NewPCG(5, 6)), 320, rows...)
	appendLog(t, s, rand.New(rand.NewPCG(5, 6)), 351, rows...)
	n, err := s.writer.value(t.Context(), "SELECT count(*) FROM entry INDEXED BY entry_thread WHERE "+isIndexed)
	if n != int64(20) || err != nil {
		t.Errorf("the index has %v rows of two logs of 351 entries, %v; want 20", n, err)
	}
}

// Each read is a search for one row in an index, and follows the chain by rowids. A co-routine ends with its reader.
func TestLogsAreReadThroughTheirChain(t *testing.T) {
	s := openTest(t, Options{})
	chain := []string{
		"SETUP", "SEARCH t USING INDEX sqlite_autoindex_thread_1 (id=?)", "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)",
		"CORRELATED SCALAR SUBQUERY", "SEARCH entry USING INDEX entry_thread (thread=? AND last_seq>?)",
		"RECURSIVE STEP", "SCAN c", "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)",
		"CORRELATED SCALAR SUBQUERY", "SEARCH entry USING INDEX entry_thread (thread=? AND last_seq<?)",
	}
	const byRow = "SEARCH entry USING INTEGER PRIMARY KEY (rowid=?)"
	list := append([]string{byRow, "LIST SUBQUERY", "MATERIALIZE chain"}, chain...)
	lazy := append([]string{"CO-ROUTINE chain"}, chain...)
	ofThread := []string{"SCALAR SUBQUERY", "SEARCH thread USING INDEX sqlite_autoindex_thread_1 (id=?)"}
	for text, want := range map[string][]string{
		entriesForward:   slices.Concat(list, []string{"SCAN chain"}, ofThread),
		entriesBackward:  slices.Concat(lazy, []string{"SCAN c", "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)"}),
		dropEntriesBelow: slices.Concat(list, []string{"SCAN chain"}),
		lastRowBelow:     slices.Concat(lazy, []string{"SCAN chain"}, ofThread),
		hasEntry:         slices.Concat(lazy, []string{"SCAN chain"}),
	} {
		var got []string
		for _, step := range explain(t, s, text) {
			got = append(got, strings.TrimRight(step, " 0123456789"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s\ngot the plan\n  %s\nwant\n  %s", text, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	}
}

// The rows of entries name each other by their rowids, which have gaps after a purge.
func TestACopyKeepsTheChainsOfItsStore(t *testing.T) {
	dir := t.TempDir()
	path, target := filepath.Join(dir, "mail.db"), filepath.Join(dir, "copy.db")
	s, random := openAt(t, path, Options{}), rand.New(rand.NewPCG(7, 8))
	rows := []*mailroom.Thread{{ID: "a"}, {ID: "b"}, {ID: "gone"}}
	appendLog(t, s, random, 100, rows...)
	err := write(t, s, &store.Changes{DropThreads: []string{"gone"}, DropEntries: []store.Prefix{{Thread: "a", Seq: 40}}})
	if err != nil {
		t.Fatal(err)
	}
	err = mustOpenFile(t, path).Backup(t.Context(), target, func(string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	copied := openAt(t, target, Options{})
	appendLog(t, copied, random, 140, rows[:2]...)
	wantLog(t, copied, random, "a", 40, 140)
	wantLog(t, copied, random, "b", 1, 140)
}

// A statement reads each row that it follows, also what the budget or the limit leaves out, and a long row takes time.
func TestAReadThatEndsEarlyFollowsFewRows(t *testing.T) {
	s := openTest(t, Options{})
	row := &mailroom.Thread{ID: "a", LastSeq: 500}
	c := &store.Changes{Threads: []*mailroom.Thread{row}}
	for seq := range row.LastSeq {
		c.Entries = append(c.Entries, entriesOf(t, "a", seq+1, seq+1))
	}
	if err := write(t, s, c); err != nil {
		t.Fatal(err)
	}
	read := func(q store.EntryQuery, want int) (steps int32) {
		t.Helper()
		found, err := entriesAfter(reader{ctx: t.Context(), session: s.writer}, q)
		if err != nil || len(found) != want {
			t.Fatalf("%+v: found %d entries, want %d, %v", q, len(found), want, err)
		}
		used := s.writer.stmts[entriesForward].(*stmt)
		const reset = 1
		return sqlite3.Xsqlite3_stmt_status(used.conn.tls, used.handle, sqlite3.SQLITE_STMTSTATUS_VM_STEP, reset)
	}
	all := read(store.EntryQuery{Thread: "a", Before: 501}, 500)
	for _, q := range []store.EntryQuery{
		{Before: 501, Kinds: []string{entry.KindStep}, Limit: 1}, {Before: 501, Run: "r", Limit: 1}, {Before: 501, Bytes: 1},
		{After: 301, Before: 501, Limit: 5, Bytes: 1},
	} {
		q.Thread = "a"
		if steps := read(q, 1); steps > all/8 {
			t.Errorf("%+v: %d steps, of %d for all entries; want an eighth at most", q, steps, all)
		}
	}
}
