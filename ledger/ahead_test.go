package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

// serveInputs claims and completes the runs of w one after the other, at most n, and returns their ids. Each
// assignment must have its input, or leave it to the log.
func (d *fixture) serveInputs(worker string, n int) (order []string) {
	d.t.Helper()
	for len(order) < n {
		d.round++
		ask := thread.ClaimRequest{Worker: worker, Round: d.round, Slots: 1, Agents: map[string]int{"echo": 1}}
		work := retryBusy(d.t, func() ([]thread.ClaimedRun, error) { return d.Claim(d.ctx, ask) })
		if len(work) == 0 {
			return order
		}
		logged := must(d.Inputs(d.ctx, []*mailroom.Run{work[0].Run}))(d.t)[0]
		if work[0].Input != nil {
			wantEqual(d.t, "input of run "+work[0].Run.ID, work[0].Input, logged)
		}
		s := complete(work[0].Claim, "re: "+logged[0].Text)
		s.Number = 1
		retryBusy(d.t, func() (*mailroom.Run, error) { return d.Settle(d.ctx, s) })
		order = append(order, work[0].Run.ID)
	}
	return order
}

// A ledger keeps the next runs of a long queue. What changes them, in this process or another, counts at
// the next claim.
func TestRunsThatWereReadAheadStartAsTheyAreNow(t *testing.T) {
	urgent := 0
	for _, c := range []struct {
		name string
		// change changes runs of the queue and returns the ids in the order in which they must start.
		change func(d *fixture, queue []store.Submitted) []string
	}{
		{"unchanged", func(_ *fixture, queue []store.Submitted) []string { return ids(queue) }},
		{"cancelled", func(d *fixture, queue []store.Submitted) []string {
			for _, i := range []int{0, 2, 10} {
				must(d.Cancel(d.ctx, queue[i].Run, "ann"))(d.t)
			}
			return ids(slices.Concat(queue[1:2], queue[3:10], queue[11:]))
		}},
		{"cancelled and retried", func(d *fixture, queue []store.Submitted) []string {
			must(d.Cancel(d.ctx, queue[1].Run, "ann"))(d.t)
			must(d.Retry(d.ctx, thread.Retry{Run: queue[1].Run}))(d.t)
			return ids(slices.Concat(queue[:1], queue[2:], queue[1:2]))
		}},
		{"retracted", func(d *fixture, queue []store.Submitted) []string {
			must(0, d.Retract(d.ctx, "t", queue[0].Message))(d.t)
			return ids(queue[1:])
		}},
		{"edited", func(d *fixture, queue []store.Submitted) []string {
			for _, i := range []int{0, 3} {
				must(d.Edit(d.ctx, "t", queue[i].Message, mailroom.Text("edited")))(d.t)
			}
			return ids(queue)
		}},
		{"preceded by an urgent run", func(d *fixture, queue []store.Submitted) []string {
			in := text("t", "now")
			in.Priority = &urgent
			return append([]string{d.submit(in).Run}, ids(queue)...)
		}},
		{"superseded", func(d *fixture, _ []store.Submitted) []string {
			return []string{d.submit(mode(mailroom.ModeInterrupt, "t", "stop")).Run}
		}},
	} {
		for i, by := range []string{"the same process", "another process"} {
			t.Run(c.name+" by "+by, func(t *testing.T) {
				_, both := two(t)
				d := both[0]
				d.register("w")
				var queue []store.Submitted
				for n := range 30 {
					queue = append(queue, d.submit(text("t", fmt.Sprint("question ", n))))
				}
				wantEqual(t, "started before", d.serveInputs("w", 12), ids(queue[:12]))
				want := c.change(both[i], queue[12:])
				wantEqual(t, "started after", d.serveInputs("w", 50), want)
			})
		}
	}
}

func ids(submitted []store.Submitted) []string {
	var runs []string
	for _, s := range submitted {
		runs = append(runs, s.Run)
	}
	return runs
}

// A run that was submitted long ago starts without a query of its own.
func TestALongQueueIsReadSeveralRunsAtATime(t *testing.T) {
	s := &counting{Store: memory.New()}
	d := open(t, s, ledger.Options{})
	d.register("w")
	for n := range 200 {
		d.submit(text("t", fmt.Sprint("question ", n)))
	}
	serve := func(n int) counts {
		s.reset()
		for range n {
			w := d.claim("w", 1)[0]
			if w.Input == nil {
				t.Fatalf("run %s starts without its input", w.Run.ID)
			}
			settle := complete(w.Claim, "ok")
			settle.Number = 1
			d.settle(settle)
		}
		return s.reset()
	}
	serve(30)
	const each, pages = 4, 8 // a claim is a Load and two calls of Due, a settle a Load
	wantEqual(t, "queries of 120 runs", serve(120).Queries, 120*each+pages)
}
