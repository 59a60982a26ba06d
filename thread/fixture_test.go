package thread_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/internal/retry"
	"mailroom/store"
	"mailroom/thread"
)

// fixture is one thread with its rows, kept between operations as a store keeps them. Each
// operation loads only what it needs and writes what it changed. A refusal that changes anything
// fails the test.
type fixture struct {
	t   *testing.T
	now time.Time
	// served is when the server started; zero: before all runs.
	served  time.Time
	row     mailroom.Thread
	runs    map[string]*mailroom.Run
	log     []mailroom.Entry
	checked int // entries of the log, which only grows
	keys    map[string]store.SubmitKey
	part    map[string][]store.Partial
	asks    map[string]*mailroom.Ticket
	sent    []thread.Submit   // to other threads
	ends    []thread.ChildEnd // told to other threads

	limit, longest, grace time.Duration // of claims
	retries               retry.Policy  // of claims

	// What the ledger resolves for a submit.
	queued, maxQueued int
	target            mailroom.Thread // the thread to which submits deliver
}

func newFixture(t *testing.T) *fixture {
	return &fixture{
		t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), retries: retry.Delivery(), // short delays
		row:  mailroom.Thread{ID: "t"},
		runs: map[string]*mailroom.Run{},
		keys: map[string]store.SubmitKey{},
		part: map[string][]store.Partial{},
		asks: map[string]*mailroom.Ticket{},
	}
}

func (w *fixture) wait(d time.Duration) { w.now = w.now.Add(d) }

// load makes a State as the ledger does, of copies of the rows.
func (w *fixture) load(s thread.Scope, key string, runs ...string) *thread.State {
	return w.loadAs(copyRun, s, key, runs...)
}

// loadAs is load of the runs that own returns for the stored ones.
func (w *fixture) loadAs(
	own func(*mailroom.Run) *mailroom.Run, s thread.Scope, key string, runs ...string,
) *thread.State {
	row := w.row
	l := thread.NewState(&row)
	l.ServedSince = w.served
	if k, ok := w.keys[key]; ok {
		l.Keys.Add(k)
		runs = append(runs, k.Result.Run)
	}
	for _, id := range append(runs, w.row.Current) {
		if r := w.runs[id]; r != nil {
			l.Runs.Add(own(r))
			for _, k := range w.asks {
				if c := *k; k.Run == id {
					l.Tickets.Add(&c)
				}
			}
		}
	}
	for {
		queue, held := l.RowsNeeded(s, w.now)
		if queue == 0 && held == 0 {
			return l
		}
		w.fill(l, own, store.RunsScheduled, held)
		w.fill(l, own, store.RunsQueued, queue)
	}
}

func (w *fixture) fill(l *thread.State, own func(*mailroom.Run) *mailroom.Run, set store.RunSet, n int) {
	if n == 0 {
		return
	}
	rows := w.set(set)
	whole := len(rows) < n
	rows = slices.Clone(rows[:min(n, len(rows))])
	for i, r := range rows {
		rows[i] = own(r)
	}
	l.Runs.SetQueue(set, rows, whole)
}

// set returns the runs of a set in the order of the store.
func (w *fixture) set(set store.RunSet) []*mailroom.Run {
	var rows []*mailroom.Run
	for _, r := range w.runs {
		if r.NeverStarted() && r.Scheduled == (set == store.RunsScheduled) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *mailroom.Run) int {
		if set == store.RunsScheduled {
			return cmp.Or(a.NotBefore.Compare(b.NotBefore), cmp.Compare(a.Place, b.Place))
		}
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Place, b.Place))
	})
	return rows
}

// apply runs one operation over what load loads, and stores its changes.
func (w *fixture) apply(load func() *thread.State, f func(*thread.State) error) error {
	w.t.Helper()
	l := load()
	if err := f(l); err != nil {
		// Nothing was stored, so what was loaded is loaded again.
		if diff := gocmp.Diff(load(), l, compareOptions()); diff != "" {
			w.t.Errorf("refused with %q and yet changed (-before +after):\n%s", err, diff)
		}
		return err
	}
	var c store.Changes
	l.Collect(&c)
	for _, row := range c.Threads {
		w.row = *row
		if w.row.Key == 0 {
			w.row.Key = 1
		}
	}
	for _, r := range c.Runs {
		if r.Key == 0 {
			r.Key = int64(len(w.runs) + 1)
		}
		w.runs[r.ID] = copyRun(r)
	}
	for _, list := range c.Entries {
		w.log = append(w.log, list...)
	}
	for _, k := range c.Keys {
		w.keys[k.Key] = k
	}
	for _, k := range c.Tickets {
		row := *k
		row.Key = 1
		w.asks[k.ID] = &row
	}
	sends, _, ends := l.Outbox.Take()
	w.sent, w.ends = append(w.sent, sends...), append(w.ends, ends...)
	for _, id := range c.DropPartials {
		delete(w.part, id)
	}
	for _, p := range c.Partials {
		w.part[p.Run] = append(w.part[p.Run], p)
	}
	w.check()
	return nil
}

// do is apply over what an operation of this scope loads.
func (w *fixture) do(s thread.Scope, runs []string, f func(*thread.State) error) error {
	w.t.Helper()
	return w.apply(func() *thread.State { return w.load(s, "", runs...) }, f)
}

// check holds after every operation: the log has no hole and the scheduling
// columns are those that the whole of the runs gives.
func (w *fixture) check() {
	w.t.Helper()
	for ; w.checked < len(w.log); w.checked++ {
		if e := w.log[w.checked]; e.Seq != int64(w.checked+1) {
			w.t.Fatalf("entry %d has seq %d", w.checked+1, e.Seq)
		}
	}
	if w.row.LastSeq != int64(len(w.log)) {
		w.t.Fatalf("last seq is %d after %d entries", w.row.LastSeq, len(w.log))
	}
	stored := func(r *mailroom.Run) *mailroom.Run { return r } // nothing changes it here
	l := w.loadAs(stored, thread.ScopeAll, "")
	due, held := l.ExpectedDue(w.now)
	got := w.row.Due
	if w.row.Current == "" && len(w.set(store.RunsQueued)) > 0 && !got.At.IsZero() && !got.At.After(w.now) {
		due.At = got.At // any time since the queue began
	}
	if got != due || !w.row.HeldAt.Equal(held) {
		w.t.Fatalf("due is %+v, held %v; the runs say %+v, held %v", got, w.row.HeldAt, due, held)
	}
}

// compareOptions lets cmp look at all of a value but its functions. Rows are compared whole: cmp would
// compare each byte of their options by reflection.
func compareOptions() gocmp.Options {
	return gocmp.Options{
		gocmp.Comparer(func(a, b *mailroom.Run) bool { return reflect.DeepEqual(a, b) }),
		gocmp.Comparer(func(a, b *mailroom.Ticket) bool { return reflect.DeepEqual(a, b) }),
		gocmp.Exporter(func(reflect.Type) bool { return true }),
		gocmp.FilterPath(func(p gocmp.Path) bool { return p.Last().Type().Kind() == reflect.Func }, gocmp.Ignore()),
	}
}

func copyRun(r *mailroom.Run) *mailroom.Run {
	c := *r
	c.Inputs = slices.Clone(r.Inputs)
	c.Steers = slices.Clone(r.Steers)
	for i, s := range c.Steers {
		if s.Own != nil {
			c.Steers[i].Own = copyRun(s.Own)
		}
	}
	return &c
}

// The operations, with what the tests do not care about filled in.

func text(run, s string) thread.Submit {
	return thread.Submit{
		Thread: "t", Run: run, Messages: []thread.NewMessage{{Parts: mailroom.Text(s)}},
		Sender: "ann", Origin: mailroom.Origin{Via: "user", Sender: "ann"},
	}
}

func in(mode mailroom.Mode, run string) thread.Submit {
	s := text(run, "say "+run)
	s.Mode = mode
	return s
}

func (w *fixture) submit(in thread.Submit) (out store.Submitted, err error) {
	w.t.Helper()
	scope := in.Scope(&w.row, w.now)
	load := func() *thread.State { return w.load(scope, in.Key) }
	err = w.apply(load, func(l *thread.State) error {
		found := thread.Resolved{Agent: cmp.Or(in.Agent, w.row.Agent, "echo"), AgentVersion: in.AgentVersion,
			Queued: w.queued, MaxQueued: w.maxQueued, DeliverTo: &w.target}
		w.target.ID = in.DeliverTo
		out, err = l.Submit(in, found, w.now)
		return err
	})
	return out, err
}

func (w *fixture) must(in thread.Submit) store.Submitted {
	w.t.Helper()
	out, err := w.submit(in)
	if err != nil {
		w.t.Fatalf("submit: %v", err)
	}
	return out
}

// start claims the due run of any agent; it returns nil if none is due.
func (w *fixture) start() *mailroom.Run {
	w.t.Helper()
	var r *mailroom.Run
	err := w.do(thread.ScopeHead, nil, func(l *thread.State) error {
		if d := l.Due; !d.At.IsZero() && !d.At.After(w.now) {
			r = l.Claim(thread.Claimant{Worker: "w1", Round: 1, Limit: w.limit, Longest: w.longest, StopGrace: w.grace,
				Retry: w.retries}, d.Agent, d.LastAttempt, w.now)
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *fixture) mustStart(id string) mailroom.Claim {
	w.t.Helper()
	r := w.start()
	if r == nil || r.ID != id {
		w.t.Fatalf("started %v, want run %s", r, id)
	}
	return claimOf(r)
}

func claimOf(r *mailroom.Run) mailroom.Claim {
	return mailroom.Claim{Thread: "t", Run: r.ID, Attempt: r.Attempt}
}

// claim is the claim that holds now.
func (w *fixture) claim() mailroom.Claim { return claimOf(w.runs[w.row.Current]) }

func (w *fixture) settle(s thread.Settle) (r *mailroom.Run, err error) {
	w.t.Helper()
	if s.Claim == (mailroom.Claim{}) {
		s.Claim = w.claim()
	}
	if s.Number == 0 && w.runs[s.Run] != nil {
		s.Number = w.runs[s.Run].Step + 1
	}
	err = w.do(thread.ScopeHead, []string{s.Run, s.GiveWay}, func(l *thread.State) error {
		r, err = l.Settle(&s, w.now)
		return err
	})
	return r, err
}

func (w *fixture) end(s thread.Settle) *mailroom.Run {
	w.t.Helper()
	r, err := w.settle(s)
	if err != nil {
		w.t.Fatalf("settle: %v", err)
	}
	return r
}

func partialText(s string) *thread.PartialText { return &thread.PartialText{ID: "said", Text: s} }

func completed(reply string) thread.Settle {
	return thread.Settle{Outcome: thread.OutcomeComplete, Message: partialText(reply)}
}

func failed(class mailroom.Class) thread.Settle {
	return thread.Settle{Outcome: thread.OutcomeFail, Failure: &mailroom.Failure{Class: class, Err: errors.New("no luck")}}
}

func released() thread.Settle { return thread.Settle{Outcome: thread.OutcomeRelease} }

func (w *fixture) append(a thread.StepCommit) (seq int64, err error) {
	w.t.Helper()
	if a.Claim == (mailroom.Claim{}) {
		a.Claim = w.claim()
	}
	if a.Number == 0 {
		a.Number = w.runs[a.Run].Step + 1
	}
	if err := a.Check(); err != nil {
		return 0, err
	}
	err = w.do(thread.ScopeRow, []string{a.Run}, func(l *thread.State) error {
		var repeat bool
		if seq, repeat, err = l.CheckStep(&a); err != nil || repeat {
			return err
		}
		seq, err = l.Append(&a, nil, w.now)
		return err
	})
	return seq, err
}

func (w *fixture) step(a thread.StepCommit) int64 {
	w.t.Helper()
	seq, err := w.append(a)
	if err != nil {
		w.t.Fatalf("append: %v", err)
	}
	return seq
}

func (w *fixture) steered() []mailroom.Input {
	w.t.Helper()
	var all []mailroom.Input
	err := w.do(thread.ScopeRow, nil, func(l *thread.State) (err error) {
		all, err = l.ReadSteers(w.claim(), w.now)
		return err
	})
	if err != nil {
		w.t.Fatalf("steered: %v", err)
	}
	return all
}

func (w *fixture) cancel(run string) (r *mailroom.Run, err error) {
	w.t.Helper()
	err = w.do(thread.ScopeHead, []string{run}, func(l *thread.State) error {
		r, err = l.Cancel(run, "bob", w.now)
		return err
	})
	return r, err
}

func (w *fixture) interrupt() (out thread.Interrupted) {
	w.t.Helper()
	err := w.do(thread.ScopeAll, nil, func(l *thread.State) error {
		out = l.Interrupt(0, "bob", w.now)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *fixture) expire() {
	w.t.Helper()
	err := w.do(thread.ScopeHead, nil, func(l *thread.State) error {
		text := l.Partials.Text(l.Current, w.part[l.Current])
		l.Revoke(thread.Revoke{Cause: thread.RevokeDead, Worker: "w1", Text: text}, w.now)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) retry(in thread.Retry) (r *mailroom.Run, err error) {
	w.t.Helper()
	err = w.do(thread.ScopeHead, []string{in.Run}, func(l *thread.State) error {
		r, err = l.Retry(in, w.now)
		return err
	})
	return r, err
}

func (w *fixture) edit(message, to string) error {
	w.t.Helper()
	return w.do(thread.ScopeHead, holder(message), func(l *thread.State) error {
		return l.Edit(message, mailroom.Text(to), w.now)
	})
}

func (w *fixture) retract(message string) error {
	w.t.Helper()
	return w.do(thread.ScopeHead, holder(message), func(l *thread.State) error {
		return l.Retract(message, w.now)
	})
}

func holder(message string) []string {
	run, _, _ := strings.Cut(message, ".")
	return []string{run}
}

// What the tests look at.

// since lists the entries after seq as "kind run, kind run".
func (w *fixture) since(seq int64) string {
	var list []string
	for _, e := range w.log[seq:] {
		list = append(list, strings.TrimSpace(e.Kind+" "+e.Run))
	}
	return strings.Join(list, ", ")
}

// queue lists the unscheduled runs that never started, in order.
func (w *fixture) queue() string {
	var ids []string
	for _, r := range w.set(store.RunsQueued) {
		ids = append(ids, r.ID)
	}
	return strings.Join(ids, " ")
}

func body[T any](t *testing.T, e mailroom.Entry) T {
	t.Helper()
	var v T
	if err := e.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func (w *fixture) last() mailroom.Entry { return w.log[len(w.log)-1] }

func (w *fixture) wantSince(seq int64, want string) {
	w.t.Helper()
	if got := w.since(seq); got != want {
		w.t.Errorf("entries:\ngot  %s\nwant %s", got, want)
	}
}

func wantCode(t *testing.T, err error, want mailroom.Code) {
	t.Helper()
	if got := mailroom.CodeOf(err); got != want {
		t.Errorf("got error %v of code %q, want code %q", err, got, want)
	}
}

func wantEqual[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := gocmp.Diff(want, got, gocmp.Comparer(func(a, b json.RawMessage) bool {
		return string(a) == string(b)
	})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (w *fixture) state(run string) string {
	r := w.runs[run]
	if r == nil {
		return "none"
	}
	if r.Reason != "" {
		return fmt.Sprintf("%s/%s", r.Status, r.Reason)
	}
	return string(r.Status)
}
