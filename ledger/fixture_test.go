package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// fixture is a running ledger over a store.
type fixture struct {
	*ledger.Ledger
	ledger.Workers
	t     *testing.T
	ctx   context.Context
	stop  context.CancelFunc
	ended chan error
	round int64
}

// ann returns a token with all permissions.
func ann() *auth.Token { return &auth.Token{Name: "ann", Scopes: auth.Permissions()} }

// open starts a ledger over s, or over a new memory store. At the end of the test it checks the
// invariants of the store.
func open(t *testing.T, s store.Store, o ledger.Options) *fixture {
	t.Helper()
	if s == nil {
		s = memory.New()
	}
	t.Cleanup(func() {
		found, err := storetest.Check(context.Background(), s)
		if err != nil && mailroom.CodeOf(err) != mailroom.CodeUnavailable {
			t.Errorf("check the invariants: %v", err)
		}
		for _, f := range found {
			t.Errorf("broken invariant: %s", f)
		}
	})
	return start(t, s, o)
}

// start is open without the check of invariants.
func start(t *testing.T, s store.Store, o ledger.Options) *fixture {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	if o.Budgets.Reread == 0 {
		o.Budgets.Reread = time.Hour // tests count what a batch reads
	}
	l := ledger.New(s, o)
	ledger.CheckRefusals(l, func(change string) { t.Error(change) })
	d := &fixture{Ledger: l, Workers: l.Workers(), t: t, ctx: context.Background(), stop: stop, ended: make(chan error, 1)}
	go func() { d.ended <- d.Run(ctx) }() // close waits for it
	t.Cleanup(func() {
		if err := d.close(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return d
}

// View is that of the ledger, which the workers have too.
func (d *fixture) View(ctx context.Context, f func(store.Reader) error) error {
	return d.Ledger.View(ctx, f)
}

// close ends the ledger and returns the result of Run. It may be called more than once.
func (d *fixture) close() error {
	d.stop()
	err := <-d.ended
	d.ended <- nil
	return err
}

func text(threadID, s string) thread.Submit {
	return thread.Submit{
		Thread: threadID, Messages: []thread.NewMessage{{Parts: mailroom.Text(s)}},
		Sender: "ann", Owner: "ann", Origin: mailroom.Origin{Via: "user", Sender: "ann"},
	}
}

func mode(m mailroom.Mode, thread, s string) thread.Submit {
	in := text(thread, s)
	in.Mode = m
	return in
}

func (d *fixture) submit(in thread.Submit) store.Submitted {
	d.t.Helper()
	return must(d.Submit(d.ctx, in))(d.t)
}

func (d *fixture) register(ids ...string) {
	d.t.Helper()
	for _, id := range ids {
		must(d.Register(d.ctx, store.Worker{ID: id, Agents: []string{"echo"}}))(d.t)
	}
}

// claim claims up to n due runs of the agent echo for worker, in a new round.
func (d *fixture) claim(worker string, n int) []thread.ClaimedRun {
	d.t.Helper()
	d.round++
	return must(d.Claim(d.ctx, thread.ClaimRequest{
		Worker: worker, Round: d.round, Slots: n, Agents: map[string]int{"echo": n}, LastAttempt: true,
	}))(d.t)
}

// claimOne claims the one due run.
func (d *fixture) claimOne(worker string) thread.ClaimedRun {
	d.t.Helper()
	work := d.claim(worker, 2)
	if len(work) != 1 {
		d.t.Fatalf("claimed %d runs, want 1", len(work))
	}
	return work[0]
}

func (d *fixture) settle(s thread.Settle) *mailroom.Run {
	d.t.Helper()
	if s.Number == 0 {
		s.Number = d.run(s.Run).Step + 1
	}
	return must(d.Settle(d.ctx, s))(d.t)
}

func complete(c mailroom.Claim, reply string) thread.Settle {
	return thread.Settle{Claim: c, Outcome: thread.OutcomeComplete, Message: partialText(c, reply)}
}

func failure(c mailroom.Claim, class mailroom.Class) thread.Settle {
	return thread.Settle{Claim: c, Outcome: thread.OutcomeFail,
		Failure: &mailroom.Failure{Class: class, Err: errors.New("no luck")}}
}

func release(c mailroom.Claim) thread.Settle {
	return thread.Settle{Claim: c, Outcome: thread.OutcomeRelease}
}

func partialText(c mailroom.Claim, s string) *thread.PartialText {
	return &thread.PartialText{ID: fmt.Sprintf("%s.%d-1", c.Run, c.Attempt), Text: s}
}

// serve claims and completes due runs one after the other, replying "re: " and the last input. It
// returns the runs in order.
func (d *fixture) serve(worker string) []string {
	d.t.Helper()
	var order []string
	for {
		work := d.claim(worker, 1)
		if len(work) == 0 {
			return order
		}
		order = append(order, work[0].Run.ID)
		d.settle(complete(work[0].Claim, "re: "+d.input(work[0].Run)))
	}
}

func (d *fixture) input(r *mailroom.Run) string {
	d.t.Helper()
	var seqs []int64
	for _, in := range r.Inputs {
		seqs = append(seqs, in.Seq)
	}
	all := must(d.Messages(d.ctx, r.Thread, seqs))(d.t)
	return all[len(all)-1].Text
}

// Reads of the store.

func (d *fixture) run(id string) *mailroom.Run {
	d.t.Helper()
	var found []*mailroom.Run
	d.view(func(r store.Reader) (err error) {
		found, err = r.Runs(store.RunQuery{IDs: []string{id}})
		return err
	})
	if len(found) != 1 {
		d.t.Fatalf("%d runs %s", len(found), id)
	}
	return found[0]
}

func (d *fixture) thread(id string) *mailroom.Thread {
	d.t.Helper()
	var found []*mailroom.Thread
	d.view(func(r store.Reader) (err error) {
		found, err = r.Threads(store.ThreadQuery{IDs: []string{id}})
		return err
	})
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

func (d *fixture) log(thread string) []mailroom.Entry {
	d.t.Helper()
	var log []mailroom.Entry
	d.view(func(r store.Reader) (err error) {
		log, err = r.Entries(store.EntryQuery{Thread: thread})
		return err
	})
	return log
}

func (d *fixture) kinds(thread string) string {
	d.t.Helper()
	var kinds []string
	for _, e := range d.log(thread) {
		kinds = append(kinds, e.Kind)
	}
	return strings.Join(kinds, ", ")
}

func (d *fixture) view(f func(r store.Reader) error) {
	d.t.Helper()
	if err := d.View(d.ctx, f); err != nil {
		d.t.Fatal(err)
	}
}

// must fails the test if a call fails: must(f())(t).
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
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
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
