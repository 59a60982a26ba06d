package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

// FTS5 writes a segment at each savepoint, and merges them later: a segment for each message costs twice as much.
func TestAStepOfTheIndexIsOneSegment(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "mail.db"), Options{})
	row := &mailroom.Thread{ID: "t", FirstSeq: 1, LastSeq: 50}
	var log []mailroom.Entry
	x := &store.Indexing{}
	for i := range row.LastSeq {
		e, err := entry.New("t", i+1, entry.KindStep, "r", 1, time.Time{}, entry.StepNamed{})
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, e)
		x.Rows = append(x.Rows, store.IndexRow{Seq: i + 1, Content: i + 1, Words: []string{"all", fmt.Sprint("n", i)}})
	}
	update := func(c *store.Changes) {
		t.Helper()
		if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.Write(c) }); err != nil {
			t.Fatal(err)
		}
	}
	update(&store.Changes{Threads: []*mailroom.Thread{row}, Entries: [][]mailroom.Entry{log}})
	for i := range x.Rows {
		x.Rows[i].Thread = row.Key
	}
	for step := range 3 { // the later ones index the same messages again
		x.Before, x.After.Last = x.After, x.After.Last+int64(len(x.Rows))
		update(&store.Changes{Index: x})
		segments := 0
		err := s.writer.query(t.Context(), "SELECT count(DISTINCT segid) FROM word_idx", nil,
			func(c *columns) (bool, error) {
				segments = c.Int()
				return true, nil
			})
		if err != nil {
			t.Fatal(err)
		}
		if segments > step+1 {
			t.Errorf("%d segments after %d steps, want at most one for each", segments, step+1)
		}
	}
}
