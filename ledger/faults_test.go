package ledger_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/sqlite"
	"mailroom/store/storetest"
)

// fault is a failure of one Update of an operation.
type fault struct {
	name      string
	fault     storetest.Fault
	harmless  bool // the caller gets the usual result
	slow      bool // it starts late and succeeds
	abandoned bool // it starts late, after the caller's context has ended
	ends      bool // the store is closed until it is reopened
	unknown   bool // the caller gets the usual result or unavailable
	// cut injects a fault below the store when the Update begins.
	cut func()
}

func allFaults() []fault {
	closed := &mailroom.Error{Code: mailroom.CodeUnavailable, Message: "the disk is full", Cause: store.ErrClosed}
	return []fault{
		{name: "fails before the commit", fault: storetest.Fault{Kind: storetest.FailBefore}},
		{name: "fails after the commit", fault: storetest.Fault{Kind: storetest.FailAfter}},
		{name: "fails before the commit, and the store closes", fault: storetest.Fault{Kind: storetest.FailBefore, Err: closed}, ends: true},
		{name: "fails after the commit, and the store closes", fault: storetest.Fault{Kind: storetest.FailAfter, Err: closed}, ends: true},
		{name: "context ends before the commit", fault: storetest.Fault{Kind: storetest.Cancel}},
		{name: "conflict at the end", fault: storetest.Fault{Kind: storetest.Conflict}, harmless: true},
		{name: "conflict before the end", fault: storetest.Fault{Kind: storetest.EarlyConflict}, harmless: true},
		{name: "slow", slow: true},
		{name: "slow, and the caller has gone", slow: true, abandoned: true},
	}
}

// faultTrial is a ledger over a store that fails one Update and can be reopened.
type faultTrial struct {
	t       *testing.T
	handle  func() (store.Store, error) // opens the store, for the first time or again
	rows    store.Store
	clock   *clock
	fixture *fixture
	observe func() // called at the beginning of each Update; nil: nothing

	mu    sync.Mutex // guards the fields below
	calls int
	at    int // number of the Update that fails; 0: none
	with  fault
	began chan struct{} // closed when that Update begins
}

// newTrial returns a trial on a store with the rows of [fillDay].
func newTrial(t *testing.T, handle func() (store.Store, error)) *faultTrial {
	t.Helper()
	x := &faultTrial{t: t, clock: newClock(), handle: handle}
	x.clock.move(dayLasts)
	x.open()
	return x
}

// writeDay writes the rows of [fillDay] to a store, and closes it.
func writeDay(t *testing.T, handle func() (store.Store, error)) {
	t.Helper()
	x := &faultTrial{t: t, clock: newClock(), handle: handle}
	x.open()
	fillDay(x.fixture, x.clock)
	if err := x.close(); err != nil {
		t.Fatal(err)
	}
}

// dayInMemory writes the rows of [fillDay] once, and returns a function that makes a memory store with
// them and returns how to open it.
func dayInMemory(t *testing.T) func(t *testing.T) func() (store.Store, error) {
	t.Helper()
	day := memory.New()
	writeDay(t, func() (store.Store, error) { return unclosedStore{day}, nil })
	return func(*testing.T) func() (store.Store, error) {
		rows := day.Fork()
		return func() (store.Store, error) { return unclosedStore{rows}, nil }
	}
}

// faultStores returns for each store a function that makes a new one with the rows of [fillDay], and
// returns how to open it.
func faultStores(t *testing.T) map[string]func(t *testing.T) func() (store.Store, error) {
	file := func(path string) func() (store.Store, error) {
		return func() (store.Store, error) { return sqlite.Open(context.Background(), path, sqlite.Options{}) }
	}
	path := filepath.Join(t.TempDir(), "day.db")
	writeDay(t, file(path))
	day := must(os.ReadFile(path))(t)
	return map[string]func(t *testing.T) func() (store.Store, error){
		"memory": dayInMemory(t),
		"sqlite": func(t *testing.T) func() (store.Store, error) {
			path := filepath.Join(t.TempDir(), "mail.db")
			if err := os.WriteFile(path, day, 0o600); err != nil {
				t.Fatal(err)
			}
			return file(path)
		},
	}
}

func (x *faultTrial) open() {
	x.t.Helper()
	s, err := x.handle()
	if err != nil {
		x.t.Fatal(err)
	}
	x.rows = s
	faulty := storetest.Faulty(clocked{x.rows, x.clock}, func(int) storetest.Fault {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.observe != nil {
			x.observe()
		}
		if x.calls++; x.calls != x.at {
			return storetest.Fault{}
		}
		close(x.began)
		if x.with.cut != nil {
			x.with.cut()
		}
		return x.with.fault
	})
	x.fixture = start(x.t, faulty, ledger.Options{MaxQueued: 100})
}

// close stops the ledger, closes the store, and returns the result of Run.
func (x *faultTrial) close() error {
	err := x.fixture.close()
	if err := x.rows.Close(); err != nil {
		x.t.Error(err)
	}
	return err
}

// updates returns the number of Updates since the last call, and makes the n-th one from now on fail.
func (x *faultTrial) updates(n int, with fault) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	calls := x.calls
	x.calls, x.at, x.with, x.began = 0, n, with, make(chan struct{})
	return calls
}

func (x *faultTrial) contents() contents {
	x.t.Helper()
	found, err := storetest.Check(x.t.Context(), x.rows)
	if err != nil {
		x.t.Fatal(err)
	}
	for _, f := range found {
		x.t.Error(f)
	}
	return must(readAll(x.t.Context(), x.rows, contents{}))(x.t)
}

// inject runs the operation with a fault in its n-th Update, and returns its result.
func (x *faultTrial) inject(o operation, m fault, n int) error {
	x.t.Helper()
	ctx, cancel := context.WithCancel(x.t.Context())
	defer cancel()
	gate := make(chan struct{})
	if m.slow {
		m.fault.Gate = gate
	}
	x.updates(n, m)
	answer := make(chan error, 1)
	go func() { // ends with the operation, which inject waits for
		_, err := o.do(ctx, x.fixture.Ledger)
		answer <- err
	}()
	if !m.slow {
		return <-answer
	}
	<-x.began
	if m.abandoned {
		cancel()
		if !o.claims {
			err := <-answer
			close(gate)
			return err
		}
	}
	close(gate)
	return <-answer
}

// runAllFaults runs all trials on SQLite and PostgreSQL as well: go test ./ledger -timeout 30m
// -run CanBeRepeatedAfterAnyFault -all.
var runAllFaults = flag.Bool("all", false, "try every fault on every store, not only the worst of each operation")

// worstFaults has the fault that depends most on the file.
func worstFaults() []fault {
	return slices.DeleteFunc(allFaults(), func(m fault) bool { return !m.ends || m.fault.Kind != storetest.FailAfter })
}

// TestEachOperationCanBeRepeatedAfterAnyFault injects each fault into each Update of each operation, with
// and without a restart, and repeats the operation. The rows must be the same as after one execution.
func TestEachOperationCanBeRepeatedAfterAnyFault(t *testing.T) {
	stores := faultStores(t)
	database := newFaultDatabase(t)
	stores["postgres"] = database.copyDay
	for i, o := range operations() {
		r := o.expected(t, stores["memory"])
		for n := 1; n <= r.updates; n++ {
			faults := map[string][]fault{"memory": allFaults()}
			if *runAllFaults {
				faults["sqlite"], faults["postgres"] = allFaults(), append(allFaults(), database.lostConnections(t, o, n)...)
			} else if n == 1 {
				faults["sqlite"] = worstFaults()
				if i%3 == 0 { // each trial takes a fifth of a second
					faults["postgres"] = database.lostAnswer(t, o)
				}
			}
			for name, list := range faults {
				for _, m := range list {
					t.Run(fmt.Sprintf("%s/%s/update %d/%s", name, o.name, n, m.name), func(t *testing.T) {
						r.try(t, newTrial(t, stores[name](t)), m, n)
					})
				}
			}
		}
	}
}

// expected is what an operation returns and leaves without a fault.
type expected struct {
	operation
	once, twice contents // after one execution, and after another
	answer      any
	updates     int
}

// expected executes the operation on stores that made returns.
func (o operation) expected(t *testing.T, made func(t *testing.T) func() (store.Store, error)) (r expected) {
	t.Helper()
	r.operation = o
	r.once, r.answer, r.updates = o.reference(t, made, 1)
	r.twice = r.once
	if o.doubles {
		r.twice, _, _ = o.reference(t, made, 2)
	}
	return r
}

// try injects a fault into the n-th Update of the operation, repeats the operation and compares the rows.
func (r *expected) try(t *testing.T, x *faultTrial, m fault, n int) {
	x.checkRepeat(r.operation, m, n, r.answer)
	is := x.contents()
	if err := x.close(); err != nil {
		t.Fatal(err)
	}
	if difference(r.twice, is) == "" {
		return
	}
	if diff := difference(r.once, is); diff != "" {
		t.Errorf("rows after the repeat (-once +got):\n%s", diff)
	}
}

// reference returns the rows and results of the operation without a fault, executed a number of times,
// and its number of Updates.
func (o operation) reference(
	t *testing.T, made func(t *testing.T) func() (store.Store, error), times int,
) (is contents, answer any, updates int) {
	t.Helper()
	x := newTrial(t, made(t))
	for range times - 1 {
		must(o.do(t.Context(), x.fixture.Ledger))(t)
	}
	x.updates(0, fault{})
	if o.again != nil {
		_, updates, answer = must(o.do(t.Context(), x.fixture.Ledger))(t), x.updates(0, fault{}), nil
		x = newTrial(t, made(t))
		for range times - 1 {
			must(o.do(t.Context(), x.fixture.Ledger))(t)
		}
		answer = must(o.again(t.Context(), x.fixture.Ledger))(t)
	} else {
		answer = must(o.do(t.Context(), x.fixture.Ledger))(t)
		updates = x.updates(0, fault{})
	}
	is = x.contents()
	if err := x.close(); err != nil {
		t.Fatal(err)
	}
	return is, answer, updates
}

// checkRepeat injects a fault into the operation, reopens the store, and repeats the operation.
func (x *faultTrial) checkRepeat(o operation, m fault, n int, want any) {
	t := x.t
	t.Helper()
	err := x.inject(o, m, n)
	switch code := mailroom.CodeOf(err); {
	case m.unknown && err == nil:
	case m.harmless, m.slow && !m.abandoned, m.abandoned && o.claims:
		if err != nil {
			t.Fatalf("got %v, want no error", err)
		}
	case code != mailroom.CodeUnavailable && !(m.abandoned && errors.Is(err, context.Canceled)):
		t.Fatalf("got %v, want an error of code unavailable", err)
	}
	if m.ends {
		if _, err := x.fixture.Submit(t.Context(), text("late", "hello")); mailroom.CodeOf(err) != mailroom.CodeUnavailable {
			t.Errorf("operation on a closed store: %v, want unavailable", err)
		}
	}
	if err := x.close(); errors.Is(err, store.ErrClosed) != m.ends {
		t.Fatalf("Run() = %v", err)
	}
	x.updates(0, fault{})
	x.open()
	again := o.do
	if o.again != nil {
		again = o.again
	}
	got, err := again(t.Context(), x.fixture.Ledger)
	switch {
	case err == nil:
		if diff := cmp.Diff(want, got); diff != "" && !o.doubles {
			t.Errorf("result of the repeat (-once +got):\n%s", diff)
		}
	case o.late == "" || mailroom.CodeOf(err) != o.late:
		t.Fatalf("repeated: got %v, want none or one of code %q", err, o.late)
	}
}
