package alert_test

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/entry"
	"mailroom/store"
)

// told is what the histories of runs say of a period.
type told struct {
	completed, failed, cancelled, open, waiting int
	usd, openUSD                                float64
	tokens                                      int64
	asked, decided                              int
	branches                                    map[string]string // by thread
}

// tell folds the logs of all threads, by agent; "" has the sums of all.
func (n *night) tell(since, until time.Time) map[string]told {
	all := map[string]told{"": {branches: map[string]string{}}}
	for place := range n.threads {
		var log []mailroom.Entry
		n.view(func(r store.Reader) (err error) {
			log, err = r.Entries(store.EntryQuery{Thread: place})
			return err
		})
		for agent, of := range tellThread(log, since, until) {
			for _, name := range []string{"", agent} {
				sum := all[name]
				sum.completed, sum.failed, sum.cancelled = sum.completed+of.completed, sum.failed+of.failed,
					sum.cancelled+of.cancelled
				sum.open, sum.waiting = sum.open+of.open, sum.waiting+of.waiting
				sum.usd, sum.openUSD, sum.tokens = sum.usd+of.usd, sum.openUSD+of.openUSD, sum.tokens+of.tokens
				sum.asked, sum.decided = sum.asked+of.asked, sum.decided+of.decided
				if all[name] = sum; of.branches[place] != "" {
					all[""].branches[place] = of.branches[place]
				}
			}
		}
	}
	return all
}

func tellThread(log []mailroom.Entry, since, until time.Time) map[string]told {
	type life struct {
		agent, end, branch string
		created, ended     time.Time
		seq                int64       // of its end
		asked              []time.Time // when its open questions were opened
		usage              mailroom.Usage
	}
	runs, order := map[string]*life{}, []string{}
	out := map[string]told{}
	within := func(at time.Time) bool { return !at.Before(since) && at.Before(until) }
	lastEnd, branch := int64(0), ""
	for _, e := range log {
		r := runs[e.Run]
		switch e.Kind {
		case entry.KindQueued:
			var b entry.RunQueued
			_ = e.Decode(&b)
			runs[e.Run], order = &life{agent: b.Agent, created: e.At}, append(order, e.Run)
		case entry.KindStep:
			var b entry.StepNamed
			_ = e.Decode(&b)
			r.usage = r.usage.Plus(b.Usage)
		case entry.KindTree:
			r.branch = entry.TreeOf(e).Branch
		case entry.KindTicketOpened:
			r.asked = append(r.asked, e.At)
		case entry.KindTicketDecided:
			r.asked = nil // a run of the tests has one open question at a time
			if sum := out[r.agent]; within(e.At) {
				sum.decided++
				out[r.agent] = sum
			}
		case entry.KindCompleted, entry.KindFailed, entry.KindCancelled:
			r.end, r.ended, r.seq, r.asked = e.Kind, e.At, e.Seq, nil // its question ends with it
		case entry.KindRetried:
			r.end = ""
		}
	}
	for _, id := range order {
		r := runs[id]
		sum := out[r.agent]
		switch {
		case r.created.Before(until) && r.end == "":
			sum.open++
			sum.openUSD += r.usage.CostUSD
			sum.waiting += len(r.asked)
			for _, at := range r.asked {
				if at.Before(until) {
					sum.asked++
				}
			}
		case r.end != "" && within(r.ended):
			sum.usd, sum.tokens = sum.usd+r.usage.CostUSD, sum.tokens+r.usage.InputTokens+r.usage.OutputTokens
			switch r.end {
			case entry.KindCompleted:
				if sum.completed++; r.seq > lastEnd {
					lastEnd, branch = r.seq, r.branch
				}
			case entry.KindFailed:
				sum.failed++
			default:
				sum.cancelled++
			}
		}
		out[r.agent] = sum
	}
	for agent, sum := range out {
		if len(log) > 0 && branch != "" {
			sum.branches = map[string]string{log[0].Thread: branch}
			out[agent] = sum
			break
		}
	}
	return out
}

// compare compares a report with the histories.
func (n *night) compare(q alert.ReportQuery) {
	got, want := n.report(q), n.tell(q.Since, q.Until)
	const line = "%d completed, %d failed, %d cancelled, %d open, %d waiting, $%.6f, $%.6f open, %d tokens"
	sum := func(r api.ReportRuns, s, open api.ReportSpent) string {
		return fmt.Sprintf(line,
			r.Completed, r.Failed, r.Cancelled, r.Waiting+r.Queued+r.Running, r.Waiting, s.CostUSD, open.CostUSD,
			s.InputTokens+s.OutputTokens)
	}
	all := map[string]string{"": sum(got.Runs, got.Spent, got.OpenSpent)}
	for _, a := range got.Agents {
		all[a.Agent] = sum(a.Runs, a.Spent, a.OpenSpent)
	}
	expected, branches := map[string]string{}, map[string]string{}
	for agent, w := range want {
		if agent == "" || w.completed+w.failed+w.cancelled+w.open > 0 {
			expected[agent] = fmt.Sprintf(line,
				w.completed, w.failed, w.cancelled, w.open, w.waiting, w.usd, w.openUSD, w.tokens)
		}
	}
	if diff := cmp.Diff(expected, all); diff != "" {
		n.t.Fatal(fmt.Sprintf("from %s to %s: %s", q.Since, q.Until, diff))
	}
	if w := want[""]; got.Questions.Open != w.asked || got.Questions.Decided != w.decided {
		n.t.Fatal(fmt.Sprintf("%d open, %d decided, want %d and %d", got.Questions.Open, got.Questions.Decided, w.asked,
			w.decided))
	}
	for _, b := range got.Branches {
		branches[b.Thread] = b.Branch
	}
	if got.MoreBranches == 0 && !cmp.Equal(want[""].branches, branches) || got.MoreBranches > 0 &&
		len(want[""].branches) != len(branches)+got.MoreBranches {
		n.t.Fatal(fmt.Sprintf("branches: %s", cmp.Diff(want[""].branches, branches)))
	}
	if got.LookedTo != nil {
		n.t.Fatal("looked to ", *got.LookedTo)
	}
}
