package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store/memory"
	"mailroom/store/sqlite"
	"mailroom/store/storetest"
)

// clock is the time of transactions, moved by a test. It begins in the past:
// what compares it with the real time finds it over.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// clocked is a store whose transactions happen at the time of a clock.
type clocked struct {
	mailroom.Store
	clock *clock
}

func (s clocked) Update(ctx context.Context, f func(mailroom.Tx) error) error {
	return s.Store.Update(ctx, func(tx mailroom.Tx) error { return f(clockedTx{tx, s.clock.read()}) })
}

type clockedTx struct {
	mailroom.Tx
	now time.Time
}

func (tx clockedTx) Now() time.Time { return tx.now }

// twin is a ledger over memory and one over SQLite, which are given the same
// operations at the same times.
type twin struct {
	ctx    context.Context
	clock  *clock
	names  [2]string
	stores [2]mailroom.Store
	both   [2]*ledger.Ledger

	before, after contents // of the store, around the last operation
}

// newTwin opens both; close ends them.
func newTwin(dir string) (w *twin, closeBoth func() error, err error) {
	w = &twin{ctx: context.Background(), clock: newClock(), names: [2]string{"memory", "sqlite"}}
	file, err := sqlite.Open(w.ctx, filepath.Join(dir, "mail.db"), sqlite.Options{})
	if err != nil {
		return nil, nil, err
	}
	w.stores = [2]mailroom.Store{memory.New(), file}
	ctx, stop := context.WithCancel(w.ctx)
	ended := make(chan error, 2)
	for i, s := range w.stores {
		w.both[i] = ledger.New(clocked{s, w.clock}, ledger.Options{Version: func(agent string) string { return agent + "-2" }})
		go func() { ended <- w.both[i].Run(ctx) }() // closeBoth waits for it
	}
	return w, func() error {
		stop()
		for range w.both {
			if err := <-ended; err != nil {
				return err
			}
		}
		return file.Close()
	}, nil
}

// fataler is a test, or a round of one.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// twice does one operation on both sides and compares what they say and what
// they hold. A refusal must have changed nothing.
func twice[T any](t fataler, w *twin, name string, f func(l *ledger.Ledger) (T, error)) (T, error) {
	t.Helper()
	var values [2]T
	var errs [2]error
	for i, l := range w.both {
		values[i], errs[i] = f(l)
	}
	if diff := cmp.Diff(values[0], values[1], sameRows()); diff != "" {
		t.Fatalf("%s answers differently (-memory +sqlite):\n%s", name, diff)
	}
	if fmt.Sprint(errs[0]) != fmt.Sprint(errs[1]) || mailroom.CodeOf(errs[0]) != mailroom.CodeOf(errs[1]) {
		t.Fatalf("%s: memory says %v, sqlite %v", name, errs[0], errs[1])
	}
	if code := mailroom.CodeOf(errs[0]); code == mailroom.Internal || code == mailroom.Unavailable {
		t.Fatalf("%s: %v", name, errs[0])
	}
	w.look(t, name)
	if errs[0] != nil {
		if diff := cmp.Diff(w.before, w.after, sameRows()); diff != "" {
			t.Fatalf("%s was refused with %q and changed (-before +after):\n%s", name, errs[0], diff)
		}
	}
	return values[0], errs[0]
}

// look reads both stores, compares them, and checks the invariants of each.
func (w *twin) look(t fataler, name string) {
	t.Helper()
	var sides [2]contents
	for i, s := range w.stores {
		found, err := storetest.Check(w.ctx, s)
		if err != nil {
			t.Fatalf("check of %s after %s: %v", w.names[i], name, err)
		}
		if len(found) > 0 {
			t.Fatalf("%s after %s breaks invariants:\n%s", w.names[i], name, strings.Join(found, "\n"))
		}
		if sides[i], err = readAll(w.ctx, s); err != nil {
			t.Fatalf("read %s after %s: %v", w.names[i], name, err)
		}
	}
	if diff := cmp.Diff(sides[0], sides[1], sameRows()); diff != "" {
		t.Fatalf("the stores differ after %s (-memory +sqlite):\n%s", name, diff)
	}
	w.before, w.after = w.after, sides[0]
}

// contents are the rows of a store by their names.
type contents struct {
	Threads  map[string]*mailroom.Thread
	Runs     map[string]*mailroom.Run
	Logs     map[string][]string // thread to encoded entries
	Partials map[string][]mailroom.Partial
	Workers  []*mailroom.Worker
	Tickets  map[string]*mailroom.Ticket
}

func readAll(ctx context.Context, s mailroom.Store) (contents, error) {
	all := contents{
		Threads: map[string]*mailroom.Thread{}, Runs: map[string]*mailroom.Run{},
		Logs: map[string][]string{}, Partials: map[string][]mailroom.Partial{}, Tickets: map[string]*mailroom.Ticket{},
	}
	err := s.View(ctx, func(r mailroom.Reader) (err error) {
		if all.Workers, err = r.Workers(); err != nil {
			return err
		}
		threads, err := r.Threads(mailroom.ThreadQuery{})
		if err != nil {
			return err
		}
		for _, row := range threads {
			all.Threads[row.ID] = row
			entries, err := r.Entries(mailroom.EntryQuery{Thread: row.ID})
			if err != nil {
				return err
			}
			for _, e := range entries {
				all.Logs[row.ID] = append(all.Logs[row.ID], string(e.JSON()))
			}
		}
		tickets, err := r.Tickets(mailroom.TicketQuery{})
		if err != nil {
			return err
		}
		for _, k := range tickets {
			all.Tickets[k.ID] = k
		}
		runs, err := r.Runs(mailroom.RunQuery{})
		if err != nil {
			return err
		}
		for _, run := range runs {
			all.Runs[run.ID] = run
			pieces, err := r.Partials(run.ID)
			if err != nil {
				return err
			}
			if len(pieces) > 0 {
				all.Partials[run.ID] = pieces
			}
		}
		return nil
	})
	return all, err
}

// sameRows compares rows of two stores: keys are each store's own, and JSON
// that was never looked into is its bytes.
func sameRows() cmp.Options {
	return cmp.Options{
		cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(mailroom.Thread{}, "Key", "Revision"),
		cmpopts.IgnoreFields(mailroom.Run{}, "Key"),
		cmpopts.IgnoreFields(ledger.Work{}, "Input"), // only there if it was submitted in the same batch
		cmpopts.IgnoreFields(mailroom.Ticket{}, "Key"),
		cmp.FilterValues(
			func(a, b json.RawMessage) bool { return len(a)+len(b) > 0 },
			cmp.Comparer(func(a, b json.RawMessage) bool { return string(a) == string(b) }),
		),
	}
}

func (w *twin) run(id string) *mailroom.Run { return w.after.Runs[id] }

// holds reports whether a claim is alive.
func (w *twin) holds(c mailroom.Claim) bool {
	row, r := w.after.Threads[c.Thread], w.after.Runs[c.Run]
	return row != nil && r != nil && row.Current == c.Run && r.Status == mailroom.Running && r.Attempt == c.Attempt
}
