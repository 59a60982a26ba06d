package postgres

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/pgtest"
	"mailroom/store"
	"mailroom/store/storetest"
)

// appendTo adds an entry to a thread, which is created if necessary. The thread is locked before.
func appendTo(t *testing.T, tx store.Tx, id string) error {
	_, rows, err := storetest.Lock(tx, nil, []string{id})
	if err != nil {
		return err
	}
	rows[0].LastSeq++
	rows[0].Revision++
	e, err := entry.New(id, rows[0].LastSeq, entry.KindStep, "", 0, time.UnixMicro(1).UTC(), json.RawMessage(`{}`))
	if err != nil {
		return err
	}
	return tx.Write(&store.Changes{Threads: rows, Entries: [][]mailroom.Entry{{e}}})
}

// page reads the entries after a position as "THREAD SEQ".
func page(t *testing.T, s *Store, after store.Position, limit int) (names []string, all store.AllEntries) {
	t.Helper()
	all.After = after
	err := s.View(t.Context(), func(r store.Reader) error {
		found, err := r.Entries(store.EntryQuery{All: &all, Limit: limit})
		for _, e := range found {
			names = append(names, fmt.Sprint(e.Thread, " ", e.Seq))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names, all
}

// end returns the position before what is written next, once no transaction of another test runs.
func end(t *testing.T, s *Store) store.Position {
	t.Helper()
	for {
		if _, all := page(t, s, store.Position{Commit: 1 << 62}, 0); !all.Pending {
			return all.End
		}
	}
}

func wantPage(t *testing.T, s *Store, after store.Position, pending bool, want ...string) {
	t.Helper()
	got, all := page(t, s, after, 0)
	for all.Pending && !pending { // a transaction of the server itself runs
		got, all = page(t, s, after, 0)
	}
	if !slices.Equal(got, want) || all.Pending != pending {
		t.Errorf("got %q, pending %t, want %q, %t", got, all.Pending, want, pending)
	}
}

// The first transaction has the lower id and commits last.
func TestAReaderSkipsNoLateCommit(t *testing.T) {
	both := handles(t, 2)
	start := end(t, both[0])
	update(t, both[0], func(tx store.Tx) error {
		if err := appendTo(t, tx, "a"); err != nil {
			return err
		}
		if err := writerOf(tx).send("write", nil); err != nil { // which gives the transaction its id
			return err
		}
		update(t, both[1], func(tx store.Tx) error { return appendTo(t, tx, "b") })
		wantPage(t, both[1], start, true)
		return nil
	})
	wantPage(t, both[1], start, false, "a 1", "b 1")
}

// A transaction that got its id before another one may write a thread after it.
func TestPositionsOfAThreadGrowWithItsLogWhicheverTransactionIsOlder(t *testing.T) {
	both := handles(t, 2)
	write(t, both[0], &store.Changes{Threads: []*mailroom.Thread{{ID: "a"}, {ID: "b"}}})
	start := end(t, both[0])
	update(t, both[0], func(tx store.Tx) error {
		if _, _, err := storetest.Lock(tx, nil, []string{"a"}); err != nil {
			return err
		}
		for range 2 {
			update(t, both[1], func(tx store.Tx) error { return appendTo(t, tx, "b") })
		}
		return appendTo(t, tx, "b")
	})
	wantPage(t, both[1], start, false, "b 1", "b 2", "b 3")
	_, all := page(t, both[1], start, 2)
	wantPage(t, both[1], all.Positions[1], false, "b 3")
}

// Handles write threads in transactions of random sizes while a reader reads pages.
func TestAReaderGetsEveryEntryOnceInOrder(t *testing.T) {
	const writers, threads, updates = 3, 6, 40
	all := handles(t, writers+1)
	start := end(t, all[0])
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var group sync.WaitGroup
	for n, s := range all[:writers] {
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		group.Go(func() {
			for range updates {
				update(t, s, func(tx store.Tx) error {
					for _, i := range random.Perm(threads)[:1+random.IntN(3)] {
						if err := appendTo(t, tx, fmt.Sprint("t", i)); err != nil {
							return err
						}
					}
					return nil
				})
			}
		})
	}
	written := make(chan struct{})
	go func() {
		group.Wait()
		close(written)
	}()
	random := rand.New(rand.NewPCG(seed, writers))
	last := map[string]int{}
	for at, ended := start, false; ; {
		select {
		case <-written:
			ended = true
		default:
		}
		limit := 1 + random.IntN(7)
		got, all := page(t, all[writers], at, limit)
		for i, name := range got {
			var thread string
			var seq int
			if _, err := fmt.Sscan(name, &thread, &seq); err != nil {
				t.Fatal(err)
			}
			if last[thread]++; seq != last[thread] {
				t.Fatalf("got %s, want the entry %d of the thread", name, last[thread])
			}
			at = all.Positions[i]
		}
		if ended && len(got) < limit && !all.Pending {
			break
		}
	}
	<-written
	err := all[writers].View(t.Context(), func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{})
		for _, row := range rows {
			if int(row.LastSeq) != last[row.ID] {
				t.Errorf("read %s up to %d, want %d", row.ID, last[row.ID], row.LastSeq)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A reader of a few entries must not sort those behind them.
func TestAPageOfAllThreadsReadsFewRows(t *testing.T) {
	s := handles(t, 1)[0]
	start := end(t, s)
	const threads, commits = 100, 20
	for range commits {
		update(t, s, func(tx store.Tx) error {
			var c store.Changes
			var ids []string
			for i := range threads {
				ids = append(ids, fmt.Sprint("t", i))
			}
			_, rows, err := storetest.Lock(tx, nil, ids)
			if err != nil {
				return err
			}
			for _, row := range rows {
				row.LastSeq++
				e, err := entry.New(row.ID, row.LastSeq, entry.KindStep, "", 0, time.UnixMicro(1).UTC(), json.RawMessage(`{}`))
				if err != nil {
					return err
				}
				c.Threads, c.Entries = append(c.Threads, row), append(c.Entries, []mailroom.Entry{e})
			}
			return tx.Write(&c)
		})
	}
	end(t, s)
	all := store.AllEntries{After: start}
	err := s.View(t.Context(), func(r store.Reader) error {
		found, err := r.Entries(store.EntryQuery{All: &all, Limit: 30})
		if err != nil || len(found) != 30 {
			t.Errorf("got %d entries, %v", len(found), err)
		}
		return r.(reader).query("read statistics", func(c *columns) error {
			scans, rows := c.Int64(), c.Int64()
			if scans > 0 || rows > 3*threads {
				t.Errorf("read %d of %d rows for a page, and the whole table %d times", rows, threads*commits, scans)
			}
			return nil
		},
			"SELECT seq_scan, idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'entry' AND schemaname = $1", s.options.Schema)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A program of the version before does not name the column.
func TestRowsOfTheVersionBeforeHaveAPosition(t *testing.T) {
	s := handles(t, 1)[0]
	start := end(t, s)
	update(t, s, func(tx store.Tx) error { return appendTo(t, tx, "t") })
	exec(t, s, `INSERT INTO entry (thread, last_seq, first_seq, lines) SELECT key, 2, 2,
		'{"thread":"t","seq":2,"kind":"step","run":"","attempt":0,"at":"1970-01-01T00:00:00Z","body":{}}' FROM thread`)
	wantPage(t, s, start, false, "t 1", "t 2")
}

func exec(t *testing.T, s *Store, text string, args ...any) {
	t.Helper()
	if _, err := s.writer.conn.Exec(t.Context(), text, args...); err != nil {
		t.Fatal(err)
	}
}

// The transaction ids of another cluster say nothing about those of this one.
func TestATableOfAnotherClusterBeginsANewOrder(t *testing.T) {
	schema := pgtest.Shared(t).Schema(t)
	s := openIn(t, schema, "node")
	update(t, s, func(tx store.Tx) error { return appendTo(t, tx, "t") })
	start := end(t, s)
	_, before := page(t, s, start, 0)
	exec(t, s,
		"UPDATE entry_order SET system = system + 1; UPDATE entry SET position = 1::bigint << 60; INSERT INTO removed VALUES ('x', 1::bigint << 60, 1, 1)")
	closeStore(t, s)
	for range 2 {
		s = openIn(t, schema, "node")
		update(t, s, func(tx store.Tx) error { return appendTo(t, tx, "t") })
		closeStore(t, s)
	}
	s = openIn(t, schema, "node")
	defer closeStore(t, s)
	end(t, s)
	got, after := page(t, s, store.Position{}, 0)
	if strings.Join(got, ", ") != "t 2, t 3" || after.Order == before.Order || after.Removed != (store.Position{}) {
		t.Errorf("got %q in the order %q, removed %v; want the later entries in another order than %q", got, after.Order,
			after.Removed, before.Order)
	}
}
