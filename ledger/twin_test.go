package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/pgtest"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/postgres"
	"mailroom/store/sqlite"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// clock is the time of transactions, moved by a test. It starts in the past, so that its times are over
// for code that uses the real time.
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

// clocked is a store whose transactions use a clock.
type clocked struct {
	store.Store
	clock *clock
}

func (s clocked) Update(ctx context.Context, f func(store.Tx) error) error {
	return s.Store.Update(ctx, func(tx store.Tx) error { return f(clockedTx{tx, s.clock.read()}) })
}

type clockedTx struct {
	store.Tx
	now time.Time
}

func (tx clockedTx) Now() time.Time { return tx.now }

func (tx clockedTx) Load(n store.Need) (*store.Loaded, error) {
	if n.DueAt.IsZero() {
		n.DueAt = tx.now
	}
	return tx.Tx.Load(n)
}

// twin has ledgers over different stores, which get the same operations at the same times.
type twin struct {
	ctx      context.Context
	clock    *clock
	sides    []*side
	handle   int      // index, on each side, of the ledger for the next operation
	coverage coverage // results of the operations
	quick    bool     // compare without a check of invariants
	looks    int
	limited  bool // the ledgers have the limits of limitsOfHistories

	before, after contents // rows before and after the last operation
	looked        int      // the ledger of that operation

	// Guarded by mu.
	mu         sync.Mutex
	refused    []string // changes of refused operations
	operations coverage // of the ledgers, by name
}

func (w *twin) onOperation(name string, _ error, _ time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.operations[name]++
}

// onRefusal notes what a refused operation has changed.
func (w *twin) onRefusal(change string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = append(w.refused, change)
}

// checkRefusals fails if an operation that was refused has changed anything.
func (w *twin) checkRefusals(t fataler) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.refused) > 0 {
		t.Fatalf("%s", w.refused[0])
	}
}

// side is a kind of store with the ledgers on its rows.
type side struct {
	name  string
	open  func() (store.Store, error) // opens another handle on the rows
	lanes int                         // further handles of each ledger
	doors []*handleSet
	// faults has the fault of each handle; results must be the same as without them.
	faults func(update int) storetest.Fault
}

func noFaults(int) storetest.Fault { return storetest.Fault{} }

// conflicts makes some Updates call their function again, at two points.
func conflicts(update int) storetest.Fault {
	return storetest.Fault{Kind: map[int]storetest.FaultKind{1: storetest.Conflict, 3: storetest.EarlyConflict}[update%5]}
}

// handle is a ledger over its own handle.
type handleSet struct {
	*ledger.Ledger
	store store.Store
	lanes []store.Store
	stop  context.CancelFunc
	ended chan error
}

// coverage counts the results of a history, by name.
type coverage map[string]int

// onMemory returns a side in memory, whose rows outlive its handles.
func onMemory() *side {
	rows := memory.New()
	return &side{name: "memory", faults: noFaults, open: func() (store.Store, error) { return unclosedStore{rows}, nil }}
}

type unclosedStore struct{ store.Store }

func (unclosedStore) Close() error { return nil }

// onFile returns a side on an SQLite file in a new folder inside dir.
func onFile(dir string) *side {
	path := ""
	return &side{name: "sqlite", faults: conflicts, open: func() (store.Store, error) {
		if path == "" {
			own, err := os.MkdirTemp(dir, "")
			if err != nil {
				return nil, err
			}
			path = filepath.Join(own, "mail.db")
		}
		return sqlite.Open(context.Background(), path, sqlite.Options{})
	}}
}

// onPostgres returns a side on a schema of the test's cluster. Its handles have separate names and lose
// their connections repeatedly.
func onPostgres(t testing.TB) *side {
	cluster := pgtest.Shared(t)
	schema, handles := cluster.Schema(t), 0
	return &side{name: "postgres", lanes: 1, faults: conflicts, open: func() (store.Store, error) {
		handles++
		s, err := postgres.Open(context.Background(), postgres.Options{
			URL: cluster.URL() + " application_name=" + schema, Schema: schema, Node: fmt.Sprint("node", handles),
			AllowUnsafe: true,
		})
		return &interrupted{Store: s, cluster: cluster, name: schema}, err
	}}
}

// interrupted is a store whose server closes all connections before some Updates.
type interrupted struct {
	store.Store
	cluster *pgtest.Cluster
	name    string // of the connections
	updates int    // owned by the ledger's committer
}

func (s *interrupted) Update(ctx context.Context, f func(store.Tx) error) error {
	if s.updates++; s.updates%41 == 0 {
		if _, err := s.cluster.Terminate(ctx, s.name); err != nil {
			return err
		}
	}
	return s.Store.Update(ctx, f)
}

// newTwin opens a number of ledgers over each side; close stops them.
func newTwin(doors int, sides ...*side) (*twin, error) {
	w := closedTwin(sides)
	return w, w.open(doors)
}

// closedTwin is newTwin without ledgers.
func closedTwin(sides []*side) *twin {
	return &twin{ctx: context.Background(), clock: newClock(), sides: sides, coverage: coverage{}, operations: coverage{}}
}

func (w *twin) open(doors int) error {
	for _, s := range w.sides {
		for door := range doors {
			store, err := s.open()
			if err != nil {
				return errors.Join(err, w.close())
			}
			ctx, stop := context.WithCancel(w.ctx)
			d := &handleSet{store: store, stop: stop, ended: make(chan error, 1)}
			o := ledger.Options{Version: func(agent string) string {
				return agent + "-2"
			}, MaxQueued: twinQueue, Sticky: isSticky, Label: labelOf(door)}
			if w.limited {
				o.Limits, o.OwnerLimit = limitsOfHistories, thread.Limit{Running: ownerPlaces}
			}
			o.Observe.Operation = w.onOperation
			var failed error
			for range s.lanes {
				lane, err := s.open()
				if err != nil {
					failed = err
					break
				}
				d.lanes = append(d.lanes, lane)
				o.Lanes = append(o.Lanes, storetest.Faulty(clocked{lane, w.clock}, s.faults))
			}
			d.Ledger = ledger.New(storetest.Faulty(clocked{store, w.clock}, s.faults), o)
			ledger.CheckRefusals(d.Ledger, w.onRefusal)
			go func() { d.ended <- d.Run(ctx) }() // close waits for it
			s.doors = append(s.doors, d)
			if failed != nil {
				return errors.Join(failed, w.close())
			}
		}
	}
	return nil
}

func isSticky(agent string) bool { return agent == "codex" }

// twinQueue is the maximum number of queued runs of a thread. It is small, so that random histories fill the queue.
const twinQueue = 4

func (w *twin) close() error {
	var failed error
	for _, s := range w.sides {
		for _, d := range s.doors {
			d.stop()
			failed = errors.Join(failed, <-d.ended, d.store.Close())
			for _, lane := range d.lanes {
				failed = errors.Join(failed, lane.Close())
			}
		}
		s.doors = nil
	}
	return failed
}

// fataler is a test or a rapid round.
type fataler interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// onBoth runs one operation on all sides and compares their results and rows. An operation that is refused, also one
// that the ledger makes by itself, must not change anything: neither rows nor what its transaction has loaded.
func onBoth[T any](t fataler, w *twin, name string, f func(l *ledger.Ledger) (T, error)) (T, error) {
	t.Helper()
	var value T
	var err error
	for i, s := range w.sides {
		v, e := f(s.doors[w.handle].Ledger)
		if i == 0 {
			value, err = v, e
			continue
		}
		if diff := diffOf(value, v); diff != "" {
			t.Fatalf("results of %s differ (-%s +%s):\n%s", name, w.sides[0].name, s.name, diff)
		}
		if fmt.Sprint(err) != fmt.Sprint(e) || mailroom.CodeOf(err) != mailroom.CodeOf(e) {
			t.Fatalf("error of %s: %s %v, %s %v", name, w.sides[0].name, err, s.name, e)
		}
	}
	t.Logf("%s: %v", name, err) // shown if the test fails
	code := mailroom.CodeOf(err)
	if code == mailroom.CodeInternal || code == mailroom.CodeUnavailable {
		t.Fatalf("%s: %v", name, err)
	}
	w.coverage[strings.TrimSuffix(name+": "+string(code), ": ")]++
	w.checkRefusals(t)
	w.compare(t, name)
	if err != nil {
		if diff := difference(w.before, w.after); diff != "" {
			t.Fatalf("%s was refused with %q but changed rows (-before +after):\n%s", name, err, diff)
		}
	}
	return value, err
}

// compare reads the stores, compares them, and checks invariants: of each store in turn, and of all where everything is
// read. What holds for the rows of one store holds for those of the others, which are equal. Only what a store derives
// from its rows by itself, such as counts, can differ, and it stays wrong until the turn of that store.
func (w *twin) compare(t fataler, name string) {
	t.Helper()
	var first contents
	known := w.after
	w.looks++
	all := w.looks%8 == 0
	if all {
		known = contents{} // read everything again, to detect changes of old rows
	}
	for i, s := range w.sides {
		store := s.doors[0].store
		if !w.quick && (all || i == w.looks%len(w.sides)) {
			found, err := storetest.Check(w.ctx, store)
			if err != nil {
				t.Fatalf("check %s after %s: %v", s.name, name, err)
			}
			if len(found) > 0 {
				t.Fatalf("%s after %s breaks invariants:\n%s", s.name, name, strings.Join(found, "\n"))
			}
		}
		rows, err := readAll(w.ctx, store, known)
		if err != nil {
			t.Fatalf("read %s after %s: %v", s.name, name, err)
		}
		if i == 0 {
			first = rows
		} else if diff := difference(first, rows); diff != "" {
			t.Fatalf("rows differ after %s (-%s +%s):\n%s", name, w.sides[0].name, s.name, diff)
		}
	}
	w.before, w.after, w.looked = w.after, first, w.handle
}

// contents has the rows of a store by name.
type contents struct {
	Threads  map[string]*mailroom.Thread
	Runs     map[string]*mailroom.Run
	Logs     map[string][]string // encoded entries by thread
	Partials map[string][]store.Partial
	Workers  []*store.Worker
	Tickets  map[string]*mailroom.Ticket
	Keys     map[string]store.SubmitKey // by "thread key", for the keys of histories
	Tokens   []*auth.Token
	Kept     []store.Definition
	Pauses   []store.Pause
	Cursors  []store.Cursor
	Reserved []store.Reservation
	Ended    []store.Summary // of days, and of labels
	Blobs    map[string]threadBlobs
}

// keyNames returns the submit keys that histories use.
func keyNames() []string { return []string{"k1", "k2", "k3"} }

// readAll reads a store. It reads only the new entries of known logs.
func readAll(ctx context.Context, s store.Store, known contents) (contents, error) {
	all := contents{
		Threads: map[string]*mailroom.Thread{}, Runs: map[string]*mailroom.Run{},
		Logs: map[string][]string{}, Partials: map[string][]store.Partial{}, Tickets: map[string]*mailroom.Ticket{},
		Keys: map[string]store.SubmitKey{}, Blobs: map[string]threadBlobs{},
	}
	err := s.View(ctx, func(r store.Reader) (err error) {
		if all.Workers, err = r.Workers(); err != nil {
			return err
		}
		rows, err := r.Agents()
		if all.Kept, all.Pauses = rows.Definitions, rows.Pauses; err != nil {
			return err
		}
		if all.Tokens, err = r.Tokens(); err != nil {
			return err
		}
		if all.Cursors, err = r.Cursors(store.CursorQuery{}); err != nil {
			return err
		}
		if all.Reserved, err = r.Reservations(store.ReservationQuery{}); err != nil {
			return err
		}
		for _, step := range store.AllSteps()[2:] { // days, and the steps of labels
			ended, err := r.Count(store.CountQuery{Summaries: &store.SummaryQuery{Step: step}})
			if all.Ended = append(all.Ended, ended.Summaries...); err != nil {
				return err
			}
		}
		threads, err := r.Threads(store.ThreadQuery{})
		if err != nil {
			return err
		}
		for _, row := range threads {
			all.Threads[row.ID] = row
			q := store.EntryQuery{Thread: row.ID}
			if was := known.Threads[row.ID]; was != nil && was.CreatedAt.Equal(row.CreatedAt) && was.FirstSeq == row.FirstSeq {
				q.After = was.LastSeq
				if log := known.Logs[row.ID]; len(log) > 0 {
					all.Logs[row.ID] = slices.Clone(log)
				}
			}
			entries, err := r.Entries(q)
			if err != nil {
				return err
			}
			for _, e := range entries {
				all.Logs[row.ID] = append(all.Logs[row.ID], string(e.Raw))
			}
			if err := all.readNamed(r, row.ID); err != nil {
				return err
			}
		}
		tickets, err := r.Tickets(store.TicketQuery{})
		if err != nil {
			return err
		}
		for _, k := range tickets {
			all.Tickets[k.ID] = k
		}
		runs, err := r.Runs(store.RunQuery{})
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

// sameRows compares rows of two stores, ignoring their keys, and compares JSON by its bytes.
func sameRows() cmp.Options {
	return cmp.Options{
		cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(mailroom.Thread{}, "Key", "Revision"),
		cmpopts.IgnoreFields(mailroom.Run{}, "Key", "Stored"),
		cmpopts.IgnoreFields(thread.ClaimedRun{}, "Input"), // set only if the run was submitted in the same batch
		cmpopts.IgnoreFields(mailroom.Ticket{}, "Key"),
		cmpopts.IgnoreFields(auth.Token{}, "Key"),
		cmp.FilterValues(
			func(a, b json.RawMessage) bool { return len(a)+len(b) > 0 },
			cmp.Comparer(func(a, b json.RawMessage) bool { return string(a) == string(b) }),
		),
	}
}

func (w *twin) run(id string) *mailroom.Run { return w.after.Runs[id] }

// holds reports whether a claim is valid.
func (w *twin) holds(c mailroom.Claim) bool {
	row, r := w.after.Threads[c.Thread], w.after.Runs[c.Run]
	return row != nil && r != nil && row.Current == c.Run && r.Status == mailroom.StatusRunning && r.Attempt == c.Attempt
}
