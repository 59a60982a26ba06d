package ledger_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

// TestABatchHasTheResultOfSingleCommits checks that operations in one commit have the same results and
// rows as in separate commits. The queues are longer than what a transition reads, so this also checks
// what a batch loads.
func TestABatchHasTheResultOfSingleCommits(t *testing.T) {
	rounds(t, 40)
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubbleTB{t}, func(rt *rapid.T) { newPair(t, rt).play(rt) })
	})
}

// bubbleTB hides the deadline of a test, which must not be read in a bubble.
type bubbleTB struct{ rapid.TB }

// pair has two ledgers over memory at the same time: one commits each operation separately, the other
// several at a time.
type pair struct {
	clock   *clock
	stores  [2]store.Store
	fate    *controlledStore
	single  *fixture
	batched *fixture
	n       int
	after   contents
	claims  []mailroom.Claim
}

func newPair(t *testing.T, rt *rapid.T) *pair {
	p := &pair{clock: newClock()}
	p.stores = [2]store.Store{memory.New(), memory.New()}
	p.fate = newControlledStore(clocked{p.stores[1], p.clock})
	p.single = start(t, clocked{p.stores[0], p.clock}, ledger.Options{})
	p.batched = start(t, p.fate, ledger.Options{})
	rt.Cleanup(func() {
		for _, d := range []*fixture{p.single, p.batched} {
			if err := d.close(); err != nil {
				rt.Errorf("run: %v", err)
			}
		}
	})
	return p
}

// action is one operation, which runs on both ledgers.
type action struct {
	name string
	do   func(d *fixture) (any, error)
}

// result is the result of an action.
type result struct {
	Name  string
	Value any
	Error string
}

func (p *pair) play(t *rapid.T) {
	<-time.After(30 * time.Millisecond) // rapid's time for shrinking is virtual
	fill := []action{{"register", func(d *fixture) (any, error) { return d.Register(d.ctx, store.Worker{ID: "w"}) }}}
	for range rapid.IntRange(0, 15).Draw(t, "runs to begin with") {
		fill = append(fill, p.submit(t))
	}
	p.applyBoth(t, fill)
	for range rapid.IntRange(1, 8).Draw(t, "batches") {
		var group []action
		for range rapid.IntRange(1, 8).Draw(t, "operations") {
			group = append(group, p.draw(t))
		}
		if rapid.Bool().Draw(t, "and a claim") {
			group = append(group, p.claim(t))
		}
		p.applyBoth(t, group)
		p.clock.move(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
	}
}

func (p *pair) applyBoth(t *rapid.T, group []action) {
	var one, many []result
	for _, g := range group {
		v, err := g.do(p.single)
		one = append(one, result{g.name, v, fmt.Sprint(err)})
	}
	many = p.gather(t, group)
	if diff := cmp.Diff(one, many, sameRows()); diff != "" {
		t.Fatalf("results of a batch differ (-one by one +batch):\n%s", diff)
	}
	var sides [2]contents
	for i, s := range p.stores {
		var err error
		if sides[i], err = readAll(p.single.ctx, s, contents{}); err != nil {
			t.Fatal(err)
		}
		for name, k := range sides[i].Keys {
			k.JoinedSeq = 0 // the end of the log after the commit, which is another one
			sides[i].Keys[name] = k
		}
	}
	if diff := difference(sides[0], sides[1]); diff != "" {
		t.Fatalf("rows after a batch differ (-one by one +batch):\n%s", diff)
	}
	p.after = sides[0]
	for _, a := range one {
		work, _ := a.Value.([]thread.ClaimedRun) // nil for the other operations
		for _, w := range work {
			p.claims = append(p.claims, w.Claim)
		}
	}
}

// gather runs the actions in one commit: another operation keeps the committer busy until all are
// queued.
func (p *pair) gather(t *rapid.T, group []action) []result {
	release := p.fate.holdNext()
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := p.batched.Interrupt(p.batched.ctx, "nowhere", ann()); mailroom.CodeOf(err) != mailroom.CodeNotFound {
			t.Errorf("the operation before the batch: %v", err)
		}
	})
	synctest.Wait()
	p.fate.updates()
	answers := make([]result, len(group))
	for i, g := range group {
		all.Go(func() {
			v, err := g.do(p.batched)
			answers[i] = result{g.name, v, fmt.Sprint(err)}
		})
		synctest.Wait()
	}
	release()
	all.Wait()
	if n := p.fate.updates(); n > 1 {
		t.Fatalf("%d commits for one batch", n)
	}
	return answers
}

func (p *pair) draw(t *rapid.T) action {
	run := rapid.SampledFrom(append(slices.Sorted(maps.Keys(p.after.Runs)), "unknown")).Draw(t, "run")
	claim := rapid.SampledFrom(append(p.claims, mailroom.Claim{Thread: "a", Run: "unknown"})).Draw(t, "claim")
	threadID := rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "thread")
	number := 1
	if r := p.after.Runs[claim.Run]; r != nil {
		number = r.Step + 1
	}
	switch rapid.SampledFrom([]string{"aside", "aside", "aside", "submit", "submit", "submit", "settle", "settle",
		"append", "steered", "cancel", "cancel", "interrupt", "retry", "edit", "retract"}).Draw(t, "operation") {
	case "aside":
		p.n++
		a := drawSide(t, p.after, p.n)
		// The first three read what was sent before the batch, and the last one runs a batch again if it is refused late.
		if slices.Contains([]string{"inbox", "acknowledge", "expire notifications", "submit all"}, a.name) {
			a = drawNotify(t, p.after, p.n)
		}
		return action{a.name, func(d *fixture) (any, error) { return a.do(d.ctx, d.Ledger) }}
	case "settle":
		s := ending(t, claim)
		s.Number = number
		return action{"settle", func(d *fixture) (any, error) { return d.Settle(d.ctx, s) }}
	case "append":
		a := thread.StepCommit{Claim: claim, Number: number, Step: mailroom.Step{Name: "step", Sends: []mailroom.Send{
			{Name: fmt.Sprint("s", number), Thread: threadID, Parts: mailroom.Text("do")},
		}}}
		return action{"append", func(d *fixture) (any, error) { return d.Append(d.ctx, a) }}
	case "steered":
		return action{"steered", func(d *fixture) (any, error) { return d.MarkSteersRead(d.ctx, claim) }}
	case "cancel":
		return action{"cancel", func(d *fixture) (any, error) { return d.Cancel(d.ctx, run, "ann") }}
	case "interrupt":
		return action{"interrupt", func(d *fixture) (any, error) { return d.Interrupt(d.ctx, threadID, ann()) }}
	case "retry":
		return action{"retry", func(d *fixture) (any, error) { return d.Retry(d.ctx, thread.Retry{Run: run}) }}
	case "edit", "retract":
		return p.change(t, run)
	}
	return p.submit(t)
}

func (p *pair) change(t *rapid.T, run string) action {
	r := p.after.Runs[run]
	if r == nil || len(r.Inputs)+len(r.Steers) == 0 {
		return p.submit(t)
	}
	var ids []string
	for _, in := range r.Inputs {
		ids = append(ids, in.Message)
	}
	for _, s := range r.Steers {
		ids = append(ids, s.Message)
	}
	id := rapid.SampledFrom(ids).Draw(t, "message")
	if rapid.Bool().Draw(t, "retract") {
		return action{"retract", func(d *fixture) (any, error) { return nil, d.Retract(d.ctx, r.Thread, id) }}
	}
	return action{"edit", func(d *fixture) (any, error) {
		_, err := d.Edit(d.ctx, r.Thread, id, mailroom.Text("better")) // returns the committed state
		return nil, err
	}}
}

func (p *pair) submit(t *rapid.T) action {
	p.n++
	in := text(rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "thread"), fmt.Sprint("text ", p.n))
	in.Run = fmt.Sprint("r", p.n)
	in.Mode = rapid.SampledFrom([]mailroom.Mode{
		"", "", "", "", mailroom.ModeSteer, mailroom.ModeSteer, mailroom.ModeInterrupt, mailroom.ModeLatest,
		mailroom.ModeCollect, mailroom.ModeReject,
	}).Draw(t, "mode")
	p1 := rapid.SampledFrom([]int{0, 128, 128, 255}).Draw(t, "priority")
	in.Priority = &p1
	if in.Mode == "" && chance(t, 40, "delayed") {
		in.NotBefore = p.clock.read().Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second)
	}
	if chance(t, 20, "keyed") {
		in.Key = rapid.SampledFrom([]string{"k1", "k2"}).Draw(t, "key")
	}
	return action{"submit " + string(in.Mode), func(d *fixture) (any, error) { return d.Submit(d.ctx, in) }}
}

func (p *pair) claim(t *rapid.T) action {
	alone := rapid.Bool().Draw(t, "alone")
	return action{"claim", func(d *fixture) (any, error) {
		work, err := d.Claim(d.ctx, thread.ClaimRequest{Worker: "w", Round: 1, Slots: 2, Agents: map[string]int{"echo": 2},
			LastAttempt: alone})
		// ties have no order
		slices.SortFunc(work, func(a, b thread.ClaimedRun) int { return strings.Compare(a.Claim.Thread, b.Claim.Thread) })
		return work, err
	}}
}
