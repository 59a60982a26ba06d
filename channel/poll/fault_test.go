package poll_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/poll"
	"mailroom/channel/poll/polltest"
	"mailroom/store"
)

// failureCase is a failure during the processing of three messages: two of a person and one of an
// agent.
type failureCase struct {
	name   string
	before func(w *fixture) // before the bridge starts
	during func(w *fixture) // while it runs; may be nil
	// Differences from the usual result: 3 replies, 3 acknowledged.
	replies  int  // difference in the number of replies
	repeated int  // replies marked as possible duplicates
	dead     int  // dead letters
	unacked  bool // the server has no acknowledgements
	hangs    bool // uses a short timeout
}

func failWith(endpoint string, faults ...polltest.Fault) func(*fixture) {
	return func(w *fixture) { w.platform.Fail(endpoint, faults...) }
}

func failureCases() []failureCase {
	status := func(codes ...int) (faults []polltest.Fault) {
		for _, c := range codes {
			faults = append(faults, polltest.Fault{Status: c, Raw: `{"error":"as told"}`})
		}
		return faults
	}
	wait := []polltest.Fault{{Status: 429, RetryAfter: 1}}
	hang, half, lost := []polltest.Fault{{Hang: true}}, []polltest.Fault{{Half: true}}, []polltest.Fault{{Lose: true}}
	return []failureCase{
		{name: "nothing fails"},
		{name: "look: 500, 503", before: failWith(polltest.Activity, status(500, 503)...)},
		{name: "look: 401, and the channel is resumed", before: failWith(polltest.Activity, status(401)...), during: func(w *fixture) {
			w.waitFor("it has failed for good", func() bool { return w.runner.State().Condition == channel.ConditionFailed })
			w.runner.Resume()
		}},
		{name: "look: 401, as in a deployment", during: func(w *fixture) {
			w.waitFor("it is connected", func() bool { return w.runner.State().Condition == channel.ConditionConnected })
			w.platform.Fail(polltest.Activity, status(401)...)
			w.waitFor("it was refused", func() bool { return strings.Contains(w.runner.State().LastError, "401") })
			if s := w.runner.State(); s.Condition == channel.ConditionFailed {
				w.t.Errorf("state after one 401: %+v", s)
			}
		}},
		{name: "look: 429, Retry-After 1", before: failWith(polltest.Activity, wait...)},
		{name: "look: hangs", hangs: true, before: failWith(polltest.Activity, hang...)},
		{name: "look: half an answer", before: failWith(polltest.Activity, half...)},
		{name: "look: not JSON", before: failWith(polltest.Activity, polltest.Fault{Raw: "<html>"})},
		{name: "look: no list", before: failWith(polltest.Activity, polltest.Fault{Raw: `{"error":"no"}`})},
		{name: "platform refuses connections, then accepts them", before: func(w *fixture) { w.platform.Down() }, during: func(w *fixture) {
			w.waitFor("it is seen", func() bool { return w.runner.State().Attempts > 1 })
			w.platform.Up(w.t)
		}},
		{name: "the cursor is forgotten", during: func(w *fixture) {
			w.platform.WaitAcked(w.t, 3)
			w.platform.ForgetCursors()
			w.waitFor("it starts over", func() bool { return strings.Contains(w.logs.String(), "cursor expired") })
			looks := w.platform.Traffic().Calls[polltest.Activity]
			w.platform.WaitFor(w.t, "more looks", func(s polltest.Traffic) bool { return s.Calls[polltest.Activity] > looks+2 })
		}},
		{name: "rows come twice", before: func(w *fixture) {
			w.platform.Add(polltest.Row{"activity_id": "c-1", "kind": "canvas_user", "text": "one",
				"arrival_workspace_id": polltest.Workspace, "seq": 1})
		}},
		{name: "a repeated row with another text", before: func(w *fixture) {
			w.platform.Add(polltest.Row{"activity_id": "c-1", "kind": "canvas_user", "text": "changed",
				"arrival_workspace_id": polltest.Workspace, "seq": 1})
		}},
		{name: "reply: 500, 500", before: failWith(polltest.Notify, status(500, 500)...)},
		{name: "reply: 403", before: failWith(polltest.Notify, status(403)...)},
		{name: "reply: 429, Retry-After 1", before: failWith(polltest.Notify, wait...)},
		{name: "reply: 404, 400, 422, as in a deployment", before: failWith(polltest.Notify, status(404, 400, 422)...)},
		{name: "reply: 400 for longer than the patience", before: func(w *fixture) {
			w.options.RetryRefusedFor = time.Nanosecond
			w.platform.Fail(polltest.Notify, status(400, 400)...)
		}, replies: -1, dead: 1},
		{name: "reply: hangs", hangs: true, before: failWith(polltest.Notify, hang...), repeated: 1},
		{name: "reply: 502 by a proxy", before: failWith(polltest.Notify, status(502)...), repeated: 1},
		{name: "reply: taken, answer lost", before: failWith(polltest.Notify, lost...), replies: +1, repeated: 1},
		{name: "reply: taken, half an answer", before: failWith(polltest.Notify, half...)},
		{name: "delegation: taken, answer lost", before: failWith(polltest.Delegate, lost...)},
		{name: "delegation: 404, 409, as in a deployment", before: failWith(polltest.Delegate, status(404, 409)...)},
		{name: "delegation: 404 for longer than the patience", before: func(w *fixture) {
			w.options.RetryRefusedFor = time.Nanosecond
			w.platform.Fail(polltest.Delegate, status(404, 404)...)
		}, replies: -1, dead: 1},
		{name: "acknowledgement: 500", before: failWith(polltest.Ack, status(500)...)},
		{name: "acknowledgement: hangs", hangs: true, before: failWith(polltest.Ack, hang...)},
		{name: "acknowledgement: answer lost", before: failWith(polltest.Ack, lost...)},
		{name: "acknowledgement: 404, old server", unacked: true, before: func(w *fixture) {
			w.platform.Fail(polltest.Ack, slices.Repeat(status(404), 50)...)
		}},
		{name: "heartbeat: 500, 404", before: failWith(polltest.Heartbeat, status(500, 404)...)},
		{name: "the bridge is restarted", during: func(w *fixture) {
			w.platform.WaitFor(w.t, "a reply", func(s polltest.Traffic) bool { return len(s.Replies) > 0 })
			w.stop()
			w.start()
		}},
	}
}

func TestAfterAnyFailureEachMessageRunsOnceAndIsAnswered(t *testing.T) {
	all := failureCases()
	lines := make([]string, len(all))
	t.Run("failures", func(t *testing.T) { // the group ends before the table is printed
		for i, c := range all {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				lines[i] = c.run(t)
			})
		}
	})
	var table strings.Builder
	tab := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "FAILURE\tRUNS OF 3 MESSAGES\tREPLIES\tMARKED AS REPEATED\tDEAD LETTERS\tACKNOWLEDGED")
	for _, line := range lines {
		fmt.Fprintln(tab, line)
	}
	if err := tab.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
}

// run runs one case and returns its line of the table.
func (c failureCase) run(t *testing.T) string {
	agent := &upperAgent{}
	w := newFixture(t, agent)
	if c.hangs {
		w.options.Timeout = time.Second
	}
	w.platform.Add(polltest.Canvas("c-1", "one"), polltest.Canvas("c-2", "two"), polltest.Peer("p-1", "peer", "three"))
	if c.before != nil {
		c.before(w)
	}
	w.start()
	if c.during != nil {
		c.during(w)
	}
	want := 3 + c.replies
	seen := w.platform.WaitFor(t, fmt.Sprintf("%d replies, and an acknowledgement", want), func(s polltest.Traffic) bool {
		return len(s.Replies) >= want && (s.Acked() >= 3 || c.unacked && s.Calls[polltest.Ack] > 0)
	})
	w.waitFor("all rows handled", func() bool { return w.runner.State().Unacked == 0 && w.runner.State().Cursor != "" })
	dead, repeated := w.deadLetters(), 0
	for _, thread := range []string{canvasDelivery, "out:b:peer:peer"} {
		repeated += w.countEntries(thread, poll.KindRepeated)
	}
	inputs := agent.received()
	line := fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%d", c.name, len(inputs), len(seen.Replies), repeated, dead, seen.Acked())
	slices.Sort(inputs)
	if !slices.Equal(inputs, []string{"one", "three", "two"}) {
		t.Errorf("the agent's inputs are %q", inputs)
	}
	if len(seen.Replies) != want || repeated != c.repeated || dead != c.dead {
		t.Errorf("replies %q, %d marked, %d dead letters, want %d, %d, %d", seen.Texts(), repeated, dead, want,
			c.repeated, c.dead)
	}
	if !slices.IsSorted(seen.Acks) || seen.Acked() > 4 {
		t.Errorf("acknowledged %v", seen.Acks)
	}
	if text := w.logs.String() + w.runner.State().LastError; strings.Contains(text, polltest.Token) {
		t.Errorf("the token is in the output: %s", text)
	}
	return line
}

// deadLetters counts the dead letters.
func (w *fixture) deadLetters() int {
	w.t.Helper()
	n := 0
	err := w.store.View(w.t.Context(), func(r store.Reader) (err error) {
		counts, err := r.Count(store.CountQuery{Statuses: []mailroom.Status{mailroom.StatusFailed}})
		n = counts.Sum()
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func TestAMessageIsNotAcknowledgedBeforeItsReply(t *testing.T) {
	w := newFixture(t, &upperAgent{})
	w.platform.Fail(polltest.Notify, slices.Repeat([]polltest.Fault{{Status: 500}}, 2)...)
	w.platform.Add(polltest.Canvas("c-1", "one"), polltest.Peer("p-1", "peer", "two"))
	w.start()
	w.platform.WaitFor(t, "the reply of the second", func(s polltest.Traffic) bool { return len(s.Replies) == 1 })
	w.waitFor("it is handled and held up by the first", func() bool { return w.runner.State().Unacked == 1 })
	if acks := w.platform.Traffic().Acks; len(acks) > 0 {
		t.Errorf("acknowledged %v before the first reply", acks)
	}
	if got := w.platform.WaitAcked(t, 2); len(got.Replies) != 2 {
		t.Errorf("replies %q", got.Texts())
	}
}

func TestReadAheadIsBounded(t *testing.T) {
	const rows, bound = 300, 50
	agent := &upperAgent{}
	w := newFixture(t, agent)
	hold := make(chan struct{})
	w.platform.Fail(polltest.Notify, polltest.Fault{Hold: hold}) // the first reply blocks the only chat
	w.options.Timeout, w.options.ReadAhead = 30*time.Second, bound
	var all []polltest.Row
	for i := range rows {
		all = append(all, polltest.Canvas(rowID(i), fmt.Sprint(i)))
	}
	w.platform.Add(all...)
	w.start()
	w.waitFor("as much is read ahead as may be", func() bool { return w.runner.State().Unacked == bound })
	looks := w.platform.Traffic().Calls[polltest.Activity]
	w.platform.WaitFor(t, "more looks", func(s polltest.Traffic) bool { return s.Calls[polltest.Activity] > looks+3 })
	if s := w.runner.State(); s.Unacked != bound || s.Reason == "" {
		t.Errorf("the state is %+v", s)
	}
	close(hold)
	seen := w.platform.WaitAcked(t, rows)
	if len(seen.Replies) != rows || len(agent.received()) != rows {
		t.Errorf("%d replies after %d runs of %d messages", len(seen.Replies), len(agent.received()), rows)
	}
	for i, r := range seen.Replies {
		if r.Text != fmt.Sprint(i) {
			t.Fatalf("reply %d is %q", i, r.Text)
		}
	}
}

func TestAPageWithoutIdsIsSkipped(t *testing.T) {
	w := newFixture(t, &upperAgent{})
	for range 120 { // more than a page
		w.platform.AddRaw(`{"kind":"canvas_user","text":"?"}`)
	}
	w.platform.Add(polltest.Canvas("c-1", "one"))
	w.start()
	if seen := w.platform.WaitAcked(t, 121); len(seen.Replies) != 1 {
		t.Errorf("replies %q", seen.Texts())
	}
}

func TestANewestFirstServerIsReadFromItsEnd(t *testing.T) {
	agent := &upperAgent{}
	w := newFixture(t, agent)
	w.platform.NewestFirst()
	w.platform.Add(polltest.Canvas("c-1", "one"), polltest.Canvas("c-2", "two"), polltest.Canvas("c-3", "three"))
	w.start()
	w.platform.WaitAcked(t, 3)
	if got := agent.received(); !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("input %q", got)
	}
}
