package ledger_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
)

// countedRows is a store that counts the rows that are read of threads, runs and entries. Reads of the log
// of the thread named bad fail.
type countedRows struct {
	store.Store
	runs, all atomic.Int64
	bad       string
}

func (c *countedRows) View(ctx context.Context, f func(store.Reader) error) error {
	return c.Store.View(ctx, func(r store.Reader) error { return f(countedReader{r, c}) })
}

func (c *countedRows) Update(ctx context.Context, f func(store.Tx) error) error {
	return c.Store.Update(ctx, func(tx store.Tx) error { return f(countedTx{tx, countedReader{tx, c}}) })
}

type countedReader struct {
	store.Reader
	counts *countedRows
}

func (r countedReader) Threads(q store.ThreadQuery) ([]*mailroom.Thread, error) {
	rows, err := r.Reader.Threads(q)
	r.counts.all.Add(int64(len(rows)))
	return rows, err
}

func (r countedReader) Runs(q store.RunQuery) ([]*mailroom.Run, error) {
	rows, err := r.Reader.Runs(q)
	r.counts.runs.Add(int64(len(rows)))
	r.counts.all.Add(int64(len(rows)))
	return rows, err
}

func (r countedReader) Entries(q store.EntryQuery) ([]mailroom.Entry, error) {
	if r.counts.bad != "" && (q.Thread == r.counts.bad || len(q.At) > 0 && q.At[0].Thread == r.counts.bad) {
		return nil, errors.New("the entries cannot be decoded")
	}
	rows, err := r.Reader.Entries(q)
	r.counts.all.Add(int64(len(rows)))
	return rows, err
}

type countedTx struct {
	store.Tx
	read countedReader
}

func (t countedTx) Runs(q store.RunQuery) ([]*mailroom.Run, error) { return t.read.Runs(q) }

func (t countedTx) Entries(q store.EntryQuery) ([]mailroom.Entry, error) { return t.read.Entries(q) }

func TestAPurgeThatDropsNothingReadsFewRows(t *testing.T) {
	for name, c := range map[string]struct {
		retention time.Duration
		open      bool // the first run is open
	}{
		"all entries are young":     {time.Hour, false},
		"the oldest run is waiting": {0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &countedRows{Store: memory.New()}
			d := open(t, s, ledger.Options{MaxQueued: 2000})
			d.register("w")
			if c.open {
				d.submit(text("t", "to be asked about"))
				d.settle(park(d.claimOne("w").Claim, nil, approval("ok")))
				for range 900 {
					d.submit(text("t", "hello"))
				}
			} else {
				d.completeRuns(900)
			}
			if c.open { // the entries before the waiting run
				must(0, d.Purge(d.ctx, "t", c.retention))(t)
			}
			s.all.Store(0)
			must(0, d.Purge(d.ctx, "t", c.retention))(t)
			if n := s.all.Load(); n > 10 {
				t.Errorf("a purge of nothing read %d rows of a thread with 900 runs, want at most 10", n)
			}
		})
	}
}

func TestAPurgeReadsEachRunAFewTimes(t *testing.T) {
	s := &countedRows{Store: memory.New()}
	d := open(t, s, ledger.Options{})
	d.register("w")
	const runs = 2600
	d.completeRuns(runs)
	s.runs.Store(0)
	must(0, d.Purge(d.ctx, "t", 0))(t)
	row := d.thread("t")
	wantEqual(t, "first seq", row.FirstSeq, row.LastSeq+1)
	if n := s.runs.Load(); n > 3*runs {
		t.Errorf("a purge of %d runs read %d rows of runs, want at most %d", runs, n, 3*runs)
	}
}

func TestAThreadThatCannotBePurgedDoesNotKeepTheOthers(t *testing.T) {
	s := &countedRows{Store: memory.New()}
	d := open(t, s, ledger.Options{})
	d.register("w")
	all := []string{"a", "b", "c", "d", "e", "f"}
	for _, id := range all {
		d.submit(text(id, "hello"))
		d.settle(complete(d.claimOne("w").Claim, "re"))
	}
	s.bad = "b"
	if err := d.PurgeEach(d.ctx, all, 0); err == nil || !strings.Contains(err.Error(), "purge thread b: ") {
		t.Errorf("error %v, want one that names thread b", err)
	}
	for _, id := range all {
		row := d.thread(id)
		wantEqual(t, "purged "+id, row.FirstSeq > row.LastSeq, id != "b")
	}
	s.bad = ""
}
