package thread_test

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/thread"
)

func TestADueAgentNamesOneAgentAndOneServer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		agent := rapid.StringOf(rapid.SampledFrom([]rune("ab @"))).Draw(t, "agent")
		node := rapid.StringOf(rapid.SampledFrom([]rune("ab-1"))).Draw(t, "node")
		if a, n := thread.ParseDueAgent(thread.DueAgent(agent, node)); a != agent || n != node {
			t.Fatalf("agent %q of server %q reads back as %q of %q", agent, node, a, n)
		}
	})
	wantEqual(t, "of any server", thread.DueAgent("codex", ""), "codex")
}

// write commits a state of the current run's agent, as a worker of a server does.
func (w *fixture) write(node string) {
	w.t.Helper()
	w.step(thread.StepCommit{Node: node, Step: mailroom.Step{State: json.RawMessage(`{"session":"s"}`)}})
}

func TestTheRunsOfASessionAreDueOnItsServer(t *testing.T) {
	w := newFixture(t)
	wantDue := func(what, agent string) {
		t.Helper()
		wantEqual(t, what, w.row.Due.Agent, agent)
	}
	w.must(in("", "first"))
	wantDue("a new thread", "echo")
	w.mustStart("first")
	w.step(thread.StepCommit{Node: "north", Step: mailroom.Step{Name: "without state"}})
	w.end(released())
	wantDue("before a session", "echo")

	w.mustStart("first")
	w.write("north")
	w.end(failed(mailroom.ClassTransient))
	wantDue("a retry", "echo @ north")
	w.wait(time.Hour)
	w.mustStart("first")
	w.end(parked(false, mailroom.Ask{Name: "q", Kind: mailroom.TicketInput, Expires: w.now.Add(time.Hour)}))
	wantDue("while it waits", "echo @ north")
	w.wait(2 * time.Hour)
	w.mustStart("first")
	w.expire()
	wantDue("after a lost worker", "echo @ north")
	w.mustStart("first")
	w.must(in("", "second"))
	w.end(completed("ok"))
	wantDue("the next run", "echo @ north")

	other := urgent("other", 0)
	other.Agent = "shell"
	w.must(other)
	wantDue("a run of another agent", "shell")
	w.mustStart("other")
	w.end(completed("ok"))
	wantDue("the session again", "echo @ north")

	w.mustStart("second")
	w.write("south")
	w.end(completed("ok"))
	third := in("", "third")
	third.Agent = "echo"
	w.must(third)
	wantDue("after another server wrote the state", "echo @ south")
	w.mustStart("third")
	w.write("")
	w.end(completed("ok"))
	wantEqual(t, "servers after a worker of no server", w.row.Nodes, map[string]string{})
}

func TestOnlyItsServerClaimsARunOfASession(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.mustStart("a")
	w.write("north")
	w.end(released())
	claim := func(due string) (r *mailroom.Run) {
		if err := w.do(thread.ScopeHead, nil, func(l *thread.State) error {
			r = l.Claim(thread.Claimant{Worker: "w", Round: 1}, due, false, w.now)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, due := range []string{"echo", "echo @ south", "echo @ north @ "} {
		if r := claim(due); r != nil {
			t.Errorf("run %s is claimed as due for %q", r.ID, due)
		}
	}
	if claim("echo @ north") == nil {
		t.Error("its server cannot claim it")
	}
}

func TestAFreedRunIsDueOnAnyServer(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.mustStart("a")
	w.write("north")
	w.end(completed("ok"))
	free := func(due string) {
		if err := w.do(thread.ScopeHead, nil, func(l *thread.State) error { l.FreeSession(due, w.now); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	free("echo @ north")
	wantEqual(t, "the server while nothing is due", w.row.Nodes["echo"], "north")
	w.must(in("", "b"))
	free("echo @ south")
	wantEqual(t, "due after another server was freed", w.row.Due.Agent, "echo @ north")
	since := w.row.Due.At
	w.wait(time.Minute)
	free("echo @ north")
	wantEqual(t, "due", w.row.Due, mailroom.Due{At: since, Agent: "echo", Priority: 128})
	w.mustStart("b")
}
