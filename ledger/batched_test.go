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
	"mailroom/store/memory"
)

// TestABatchGivesWhatOneByOneGives: operations that share a commit outcome, and
// leave the rows, as if each had a commit of its own. The queues are longer than
// what a transition looks at, so this is also about what has to be loaded.
func TestABatchGivesWhatOneByOneGives(t *testing.T) {
	rounds(t, 40)
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubbled{t}, func(rt *rapid.T) { newPair(t, rt).play(rt) })
	})
}

// bubbled hides the deadline of a test, which must not be asked for in a bubble.
type bubbled struct{ rapid.TB }

// pair are two ledgers over memory at the same model time: one gets its
// operations one by one, the other some at a time.
type pair struct {
	clock   *clock
	stores  [2]mailroom.Store
	fate    *fate
	single  *desk
	batched *desk
	n       int
	after   contents
	claims  []mailroom.Claim
}

func newPair(t *testing.T, rt *rapid.T) *pair {
	p := &pair{clock: newClock()}
	p.stores = [2]mailroom.Store{memory.New(), memory.New()}
	p.fate = newFate(clocked{p.stores[1], p.clock})
	p.single = start(t, clocked{p.stores[0], p.clock}, ledger.Options{})
	p.batched = start(t, p.fate, ledger.Options{})
	rt.Cleanup(func() {
		for _, d := range []*desk{p.single, p.batched} {
			if err := d.close(); err != nil {
				rt.Errorf("run: %v", err)
			}
		}
	})
	return p
}

// deed is one operation, to be done on either side.
type deed struct {
	name string
	do   func(d *desk) (any, error)
}

// outcome is what a deed answered.
type outcome struct {
	Name  string
	Value any
	Error string
}

func (p *pair) play(t *rapid.T) {
	<-time.After(30 * time.Millisecond) // the time for making a failure smaller is the bubble's
	fill := []deed{{"register", func(d *desk) (any, error) { return d.Register(d.ctx, mailroom.Worker{ID: "w"}) }}}
	for range rapid.IntRange(0, 15).Draw(t, "runs to begin with") {
		fill = append(fill, p.submit(t))
	}
	p.both(t, fill)
	for range rapid.IntRange(1, 8).Draw(t, "batches") {
		var group []deed
		for range rapid.IntRange(1, 8).Draw(t, "operations") {
			group = append(group, p.draw(t))
		}
		if rapid.Bool().Draw(t, "and a claim") {
			group = append(group, p.claim(t))
		}
		p.both(t, group)
		p.clock.move(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
	}
}

func (p *pair) both(t *rapid.T, group []deed) {
	var one, many []outcome
	for _, g := range group {
		v, err := g.do(p.single)
		one = append(one, outcome{g.name, v, fmt.Sprint(err)})
	}
	many = p.gather(t, group)
	if diff := cmp.Diff(one, many, sameRows()); diff != "" {
		t.Fatalf("a batch answers differently (-one by one +batch):\n%s", diff)
	}
	var sides [2]contents
	for i, s := range p.stores {
		var err error
		if sides[i], err = readAll(p.single.ctx, s, contents{}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := difference(sides[0], sides[1]); diff != "" {
		t.Fatalf("a batch leaves other rows (-one by one +batch):\n%s", diff)
	}
	p.after = sides[0]
	for _, a := range one {
		work, _ := a.Value.([]ledger.Assignment) // nil for the other operations
		for _, w := range work {
			p.claims = append(p.claims, w.Claim)
		}
	}
}

// gather does the deeds in one commit: another one keeps the committer busy
// until all of them are queued.
func (p *pair) gather(t *rapid.T, group []deed) []outcome {
	release := p.fate.hold()
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := p.batched.Interrupt(p.batched.ctx, "nowhere", ann()); mailroom.CodeOf(err) != mailroom.CodeNotFound {
			t.Errorf("the first one: %v", err)
		}
	})
	synctest.Wait()
	p.fate.updates()
	answers := make([]outcome, len(group))
	for i, g := range group {
		all.Go(func() {
			v, err := g.do(p.batched)
			answers[i] = outcome{g.name, v, fmt.Sprint(err)}
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

func (p *pair) draw(t *rapid.T) deed {
	run := rapid.SampledFrom(append(slices.Sorted(maps.Keys(p.after.Runs)), "nobody")).Draw(t, "run")
	claim := rapid.SampledFrom(append(p.claims, mailroom.Claim{Thread: "a", Run: "nobody"})).Draw(t, "claim")
	thread := rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "thread")
	number := 1
	if r := p.after.Runs[claim.Run]; r != nil {
		number = r.Step + 1
	}
	switch rapid.SampledFrom([]string{"submit", "submit", "submit", "settle", "settle", "append", "steered", "cancel", "cancel", "interrupt", "retry", "edit", "retract"}).Draw(t, "operation") {
	case "settle":
		s := ending(t, claim)
		s.Number = number
		return deed{"settle", func(d *desk) (any, error) { return d.Settle(d.ctx, s) }}
	case "append":
		a := mailroom.StepCommit{Claim: claim, Number: number, Step: mailroom.Step{Name: "step", Sends: []mailroom.Send{
			{Name: fmt.Sprint("s", number), Thread: thread, Parts: mailroom.Text("do")},
		}}}
		return deed{"append", func(d *desk) (any, error) { return d.Append(d.ctx, a) }}
	case "steered":
		return deed{"steered", func(d *desk) (any, error) { return d.MarkSteersRead(d.ctx, claim) }}
	case "cancel":
		return deed{"cancel", func(d *desk) (any, error) { return d.Cancel(d.ctx, run, "ann") }}
	case "interrupt":
		return deed{"interrupt", func(d *desk) (any, error) { return d.Interrupt(d.ctx, thread, ann()) }}
	case "retry":
		return deed{"retry", func(d *desk) (any, error) { return d.Retry(d.ctx, mailroom.Retry{Run: run}) }}
	case "edit", "retract":
		return p.change(t, run)
	}
	return p.submit(t)
}

func (p *pair) change(t *rapid.T, run string) deed {
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
		return deed{"retract", func(d *desk) (any, error) { return nil, d.Retract(d.ctx, r.Thread, id) }}
	}
	return deed{"edit", func(d *desk) (any, error) {
		_, err := d.Edit(d.ctx, r.Thread, id, mailroom.Text("better")) // answers with what is committed by then
		return nil, err
	}}
}

func (p *pair) submit(t *rapid.T) deed {
	p.n++
	in := text(rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "thread"), fmt.Sprint("text ", p.n))
	in.Run = fmt.Sprint("r", p.n)
	in.Mode = rapid.SampledFrom([]mailroom.Mode{
		"", "", "", "", mailroom.ModeSteer, mailroom.ModeSteer, mailroom.ModeInterrupt, mailroom.ModeLatest, mailroom.ModeCollect, mailroom.ModeReject,
	}).Draw(t, "mode")
	p1 := rapid.SampledFrom([]int{0, 128, 128, 255}).Draw(t, "priority")
	in.Priority = &p1
	if in.Mode == "" && chance(t, 40, "delayed") {
		in.NotBefore = p.clock.read().Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second)
	}
	if chance(t, 20, "keyed") {
		in.Key = rapid.SampledFrom([]string{"k1", "k2"}).Draw(t, "key")
	}
	return deed{"submit " + string(in.Mode), func(d *desk) (any, error) { return d.Submit(d.ctx, in) }}
}

func (p *pair) claim(t *rapid.T) deed {
	alone := rapid.Bool().Draw(t, "alone")
	return deed{"claim", func(d *desk) (any, error) {
		work, err := d.Claim(d.ctx, ledger.ClaimRequest{Worker: "w", Round: 1, Slots: 2, Agents: map[string]int{"echo": 2}, LastAttempt: alone})
		slices.SortFunc(work, func(a, b ledger.Assignment) int { return strings.Compare(a.Claim.Thread, b.Claim.Thread) }) // ties have no order
		return work, err
	}}
}
