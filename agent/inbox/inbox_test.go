package inbox_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/agent/inbox"
	"mailroom/entry"
	"mailroom/store/storetest"
	"mailroom/thread"
)

func TestAMessageStaysAtTheHeadUntilItIsPopped(t *testing.T) {
	withFixture(t, func(h *fixture) {
		first := h.send("mine", "one")
		second := h.send("mine", "two")
		for range 3 {
			if got, want := text(t, h.head()), "canvas_user ann: one"; got != want {
				t.Errorf("at the head: %q, want %q", got, want)
			}
			h.stop()
			h.serve(h.store)
		}
		h.do(`{"say":"I am on it"}`)
		h.do(`{"say":"done"}`)
		if got := h.head().Run; got != first {
			t.Errorf("head is run %s after a reply, want still %s", got, first)
		}
		h.do(`{"pop":true}`)
		if got, want := text(t, h.head()), "canvas_user ann: two"; got != want || h.head().Run != second {
			t.Errorf("at the head after a pop: %q, want %q", got, want)
		}
		h.do(`{"pop":true}`)
		if got := len(h.heads()); got != 0 {
			t.Errorf("%d messages are at a head, want none", got)
		}
		if got, want := h.replies("mine"), "I am on it|done"; got != want {
			t.Errorf("replies %q, want %q", got, want)
		}
		if r := h.run(first); r.Status != mailroom.StatusCompleted || r.Reply == nil || *r.Reply != "done" {
			t.Errorf("the run of the first message: %s with reply %v, want completed with the last reply", r.Status, r.Reply)
		}
		if r := h.run(second); r.Status != mailroom.StatusCompleted || r.Reply != nil {
			t.Errorf("the run of the second message: %s with reply %v, want completed without one", r.Status, r.Reply)
		}
	})
}

func TestDelegationResultArrivesAsAMessage(t *testing.T) {
	for name, delegation := range map[string]string{
		"to a thread": `{"delegate":{"thread":"cage","task":"pretty"}}`,
		"to an agent": `{"delegate":{"agent":"parrot","task":"pretty"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, func(h *fixture) {
				h.send("cage", "hello", func(in *thread.Submit) { in.Agent = "parrot" })
				h.send("mine", "one")
				h.do(delegation)
				h.do(`{"pop":true}`)
				k := h.head()
				if got, want := text(t, k), "delegation_result parrot: {"; !strings.HasPrefix(got, want) {
					t.Errorf("at the head: %q, want %q", got, want)
				}
				var end struct{ Reply string }
				input, err := h.ledger.Workers().Inputs(t.Context(), []*mailroom.Run{h.run(k.Run)})
				h.must(err)
				h.must(jsonOf(input[0][0].Parts, &end))
				if end.Reply != "parrot: pretty" {
					t.Errorf("result %q, want the reply of the other inbox", end.Reply)
				}
			})
		})
	}
}

func TestInboxesExchangeMessages(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.send("yours", "", command(`{"open":true}`))
		h.send("mine", "", command(`{"delegate":{"thread":"yours","task":"please"}}`))
		if got, want := text(t, h.head()), "peer_agent inbox: please"; got != want {
			t.Errorf("at the other's head: %q, want %q", got, want)
		}
		h.do(`{"say":"here you are"}`)
		h.do(`{"pop":true}`)
		k := h.head()
		if k.Thread != "mine" || !strings.HasPrefix(text(t, k), "delegation_result") {
			t.Errorf("head of %s: %s, want the result in mine", k.Thread, text(t, k))
		}
	})
}

func TestACommandWithoutAMessageIsARunOfItsOwn(t *testing.T) {
	withFixture(t, func(h *fixture) {
		open := h.send("mine", "", command(`{"open":true}`))
		say := h.send("mine", "", command(`{"call":"c","say":"good morning"}`))
		bad := h.send("mine", "", command(`{"pop":true}`))
		for run, want := range map[string]mailroom.Status{open: mailroom.StatusCompleted, say: mailroom.StatusCompleted,
			bad: mailroom.StatusFailed} {
			if got := h.run(run).Status; got != want {
				t.Errorf("run %s is %s, want %s", run, got, want)
			}
		}
		if got := h.replies("mine"); got != "good morning" {
			t.Errorf("replies %q", got)
		}
		if diff := cmp.Diff([]inbox.Outcome{{Call: "c", Did: "say"}}, h.outcomes("mine")); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		if e := h.run(bad).Error; e.Class != mailroom.ClassPermanent || !strings.Contains(e.Message, "pop is allowed only") {
			t.Errorf("outcome of the invalid command %+v, want a permanent failure with its reason", e)
		}
	})
}

func TestAPersonCanAnswerByHand(t *testing.T) {
	withFixture(t, func(h *fixture) {
		run := h.send("mine", "one")
		h.do(`"a plain text"`)
		h.do(`"{\"say\":\"a command as text\"}"`)
		h.do(`"{\"pop\":true}"`)
		if got, want := h.replies("mine"), "a plain text|a command as text"; got != want ||
			h.run(run).Status != mailroom.StatusCompleted {
			t.Errorf("replies %q, run %s; want %q and completed", got, h.run(run).Status, want)
		}
	})
}

func TestRefusedCommandIsReportedAndKeepsTheMessage(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.send("theirs", "", command(`{"open":true}`), func(in *thread.Submit) { in.Owner = "bob" })
		run := h.send("mine", "one")
		h.do(`{"call":"a","delegate":{"thread":"theirs","task":"x"}}`)
		h.do(`7`)
		h.do(`{"say":"a","pop":true}`)
		h.do(`{"call":"n","say":"\u0000"}`)
		h.do(`{"delegate":{"task":"x"}}`)
		h.do(`{"open":true}`)
		if got := h.head().Run; got != run {
			t.Errorf("run %s is at the head, want still %s", got, run)
		}
		var codes []string
		for _, o := range h.outcomes("mine") {
			codes = append(codes, o.Call+":"+string(o.Refused.Code))
		}
		want := []string{"a:not_found", ":invalid", ":invalid", "n:invalid", ":invalid", ":invalid"}
		if diff := cmp.Diff(want, codes); diff != "" {
			t.Errorf("refusals (-want +got):\n%s", diff)
		}
		if got := len(h.entries("theirs", entry.KindMessage)); got != 1 {
			t.Errorf("%d messages in the other's thread, want only its own", got)
		}
		own := h.send("other", "", command(`{"delegate":{"thread":"theirs","task":"x"}}`))
		if r := h.run(own); r.Status != mailroom.StatusFailed || !strings.Contains(r.Error.Message, "theirs") {
			t.Errorf("refused command as a separate run: %s, %v; want failed with a reason", r.Status, r.Error)
		}
	})
}

func TestExtendedMessageIsNotPoppedUnread(t *testing.T) {
	for name, before := range map[string][]string{"at once": {}, "after something was said": {`{"say":"yes"}`}} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, func(h *fixture) {
				run := h.send("mine", "one")
				h.send("mine", "mind", func(in *thread.Submit) { in.Mode = mailroom.ModeSteer })
				for _, c := range before {
					h.do(c)
				}
				h.do(`{"call":"p","pop":true}`)
				outcomes := append([]inbox.Outcome{{}}, h.outcomes("mine")...)
				if last := outcomes[len(outcomes)-1]; last.Call != "p" || last.Refused == nil ||
					last.Refused.Code != mailroom.CodeConflict {
					t.Errorf("outcome of the pop %+v, want a refusal", last)
				}
				if got := h.head().Run; got != run {
					t.Errorf("run %s is at the head, want still %s", got, run)
				}
				h.do(`{"pop":true}`)
				if got := len(h.heads()); got != 0 {
					t.Errorf("%d messages are at a head after the second pop, want none", got)
				}
			})
		})
	}
}

// TestEachCommandIsDoneOnceDespiteAKillAtAnyWrite kills the server before and after each of its
// writes, from the message to the pop.
func TestEachCommandIsDoneOnceDespiteAKillAtAnyWrite(t *testing.T) {
	commands := []string{`{"call":"1","say":"one"}`, `{"call":"2","delegate":{"agent":"parrot","task":"x"}}`,
		`{"call":"3","say":"three"}`, `{"pop":true}`}
	for n := 1; ; n++ {
		survived := false
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(n, after), func(t *testing.T) {
				withFixture(t, func(h *fixture) {
					h.stop()
					m := &storetest.Killable{Store: h.store, N: n, After: after}
					h.serve(m)
					survived = h.play(m, commands)
					if got, want := h.replies("mine"), "one|three"; got != want {
						t.Errorf("replies %q, want %q", got, want)
					}
					if got := len(h.entries("mine", entry.KindSend)); got != 1 {
						t.Errorf("%d tasks were sent, want 1", got)
					}
				})
			})
		}
		if survived {
			if n < 8 {
				t.Errorf("only %d kills", n-1)
			}
			return
		}
	}
}

// play submits a message and the commands, each until it is accepted, with a new server after the
// one on m has died. It reports whether that server survived.
func (h *fixture) play(m *storetest.Killable, commands []string) (survived bool) {
	h.t.Helper()
	submit := func() error {
		_, err := h.ledger.Submit(h.t.Context(), thread.Submit{
			Thread: "mine", Agent: "inbox", Key: "k", Messages: []thread.NewMessage{{Parts: mailroom.Text("hello")}},
			Owner: "ann",
		})
		return err
	}
	h.try(m, submit)
	var run string
	for i, c := range commands {
		h.try(m, func() error {
			heads := h.heads()
			if run == "" {
				run = heads[0].Run
			}
			k := thread.TicketID(run, fmt.Sprintf("read-%d", i+1))
			_, err := h.ledger.Decide(h.t.Context(), thread.Decision{Ticket: k, Verdict: mailroom.VerdictAnswer,
				Answer: []byte(c), By: "reader"})
			return err
		})
	}
	if got := h.run(run).Status; got != mailroom.StatusCompleted {
		h.t.Errorf("the run is %s, want completed", got)
	}
	return !m.IsDead()
}

// try calls f and waits until all goroutines are idle. If the server died, it repeats that on the
// next one.
func (h *fixture) try(m *storetest.Killable, f func() error) {
	h.t.Helper()
	dead := m.IsDead()
	err := error(nil)
	if err = f(); err == nil {
		h.rest()
	}
	if m.IsDead() && !dead {
		h.stop()
		h.serve(h.store)
		err = f()
		h.rest()
	}
	h.must(err)
}
