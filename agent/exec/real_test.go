//go:build realagents

package exec_test

import (
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/agent/exec/program"
	"mailroom/entry"
	"mailroom/internal/fakemodel"
	"mailroom/store"
	"mailroom/thread"
)

// userTexts returns the user messages in a request to a model.
func userTexts(r fakemodel.Request) (words []string) {
	for _, turn := range r.Turns {
		if turn.Role == "user" && !strings.HasPrefix(turn.Text, "<") {
			words = append(words, strings.TrimSpace(turn.Text))
		}
	}
	return words
}

// recall replies with all messages of the user.
func recall(r fakemodel.Request) fakemodel.Answer {
	return fakemodel.Reply("You said: ", strings.Join(userTexts(r), " | "))
}

func reply(t *testing.T, run *mailroom.Run) string {
	t.Helper()
	if run.Reply == nil {
		t.Fatalf("run %s has no reply", run.ID)
	}
	return *run.Reply
}

func TestRealProgramKeepsOneSessionPerThread(t *testing.T) {
	eachProgram(t, func(t *testing.T, name string) {
		w := newRealFixture(t, name, model(t, recall).URL)
		first := w.ask("t", "My word is lemon.")
		if got, want := reply(t, first), "You said: My word is lemon."; got != want {
			t.Errorf("first reply %q, want %q", got, want)
		}
		w.restart()
		second := w.ask("t", "What was it?")
		if got, want := reply(t, second), "You said: My word is lemon. | What was it?"; got != want {
			t.Errorf("second reply %q, want %q", got, want)
		}
		if got := entries[exec.Session](w, "t", exec.KindSession, 1); len(got) != 1 {
			t.Errorf("sessions %+v, want one for both turns", got)
		}
		// Each turn reports the totals of the session.
		for _, run := range []*mailroom.Run{first, second} {
			if run.Usage.InputTokens != fakemodel.InputTokens || run.Usage.OutputTokens != fakemodel.OutputTokens {
				t.Errorf("usage %+v, want the usage of one response", run.Usage)
			}
		}
		if name == "claude" && (second.Usage.CostUSD == 0 || second.Usage.CostUSD > first.Usage.CostUSD*1.01) {
			t.Errorf("cost %v, then %v, want the same", first.Usage.CostUSD, second.Usage.CostUSD)
		}
		w.alone()
	})
}

func TestRealProgramThatLostItsSessionGetsTheTranscript(t *testing.T) {
	eachProgram(t, func(t *testing.T, name string) {
		w := newRealFixture(t, name, model(t, recall).URL)
		w.ask("t", "My word is lemon.")
		for _, folder := range []string{"codex/sessions", "claude/projects"} {
			w.must(os.RemoveAll(filepath.Join(w.folder, folder)))
		}
		got := reply(t, w.ask("t", "What was it?"))
		for _, want := range []string{`"My word is lemon."`, `"You said: My word is lemon."`, "What was it?"} {
			if !strings.Contains(got, want) {
				t.Errorf("request to the model %q lacks %s", got, want)
			}
		}
		sessions := entries[exec.Session](w, "t", exec.KindSession, 2)
		if len(sessions) != 2 || sessions[1].Lost != sessions[0].Session || sessions[1].Session == sessions[0].Session ||
			sessions[1].Messages != 2 {
			t.Errorf("sessions %+v, want a second one in the place of the first, with 2 messages", sessions)
		}
		if got := reply(t, w.ask("t", "Again?")); !strings.HasSuffix(got, " | Again?") ||
			strings.Count(got, exec.Continued) != 1 {
			t.Errorf("request to the model %q, want it in the new session", got)
		}
	})
}

// working is a model that writes text, calls a tool, and then hangs.
func working(name string) func(fakemodel.Request) fakemodel.Answer {
	return func(r fakemodel.Request) fakemodel.Answer {
		if slices.Contains(userTexts(r), "Go on.") {
			return recall(r)
		}
		if _, done := r.Result(); done {
			return fakemodel.Answer{Text: []string{"And ", "then"}, Hang: true}
		}
		return fakemodel.Answer{Text: []string{"I look."}, Calls: []fakemodel.Call{look(name, "echo found")}}
	}
}

// look is a call of the program's shell tool.
func look(name, command string) fakemodel.Call {
	if name == "codex" {
		return fakemodel.Call{Name: "exec_command", Input: map[string]any{"cmd": command, "yield_time_ms": 30000}}
	}
	return fakemodel.Call{Name: "Bash", Input: map[string]any{"command": command, "description": "Look"}}
}

func TestRealProgramThatIsCancelledKeepsItsText(t *testing.T) {
	eachProgram(t, func(t *testing.T, name string) {
		m := model(t, working(name))
		w := newRealFixture(t, name, m.URL)
		live := w.bus.Subscribe("t", 1000)
		defer live.Close()
		out := w.send("t", "Look around.")
		if name == "claude" {
			w.delta(live, "And then")
		} else if _, err := m.Wait(w.t.Context(), 2); err != nil { // it reports no partial text
			t.Fatal(err)
		}
		if len(w.processes()) == 0 {
			t.Error("no process of the command found")
		}
		_, err := w.ledger.Cancel(t.Context(), out.Run, "anna")
		w.must(err)
		w.run(out.Run, mailroom.StatusCancelled)
		w.alone()
		var texts []string
		for _, m := range entries[mailroom.Message](w, "t", entry.KindMessage, 2)[1:] {
			texts = append(texts, m.Text)
		}
		want := "I look."
		if name == "claude" {
			want = "I look.\nAnd then"
		}
		if got := strings.Join(texts, "\n"); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want),
			" ") {
			t.Errorf("kept %q, want %q", got, want)
		}
		if got := reply(t, w.ask("t", "Go on.")); got != "You said: Look around. | Go on." &&
			!strings.HasSuffix(got, " | Go on.") {
			t.Errorf("next reply %q, want it in the same session", got)
		}
		if got := entries[exec.Session](w, "t", exec.KindSession, 1); len(got) != 1 {
			t.Errorf("sessions %+v, want one", got)
		}
	})
}

func TestRealProgramThatIsKilledContinues(t *testing.T) {
	eachProgram(t, func(t *testing.T, name string) {
		var asked atomic.Int64
		m := model(t, func(r fakemodel.Request) fakemodel.Answer {
			if asked.Add(1) == 1 {
				return fakemodel.Answer{Text: []string{"Half of "}, Hang: true}
			}
			return recall(r)
		})
		w := newRealFixture(t, name, m.URL)
		out := w.send("t", "My word is lemon.")
		if _, err := m.Wait(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		w.must(syscall.Kill(entries[exec.Started](w, "t", exec.KindStarted, 1)[0].PID, syscall.SIGKILL))
		run := w.run(out.Run, mailroom.StatusCompleted)
		if run.Attempt != 2 || !strings.Contains(reply(t, run), "My word is lemon.") {
			t.Errorf("attempt %d with the reply %q, want the second and the word", run.Attempt, reply(t, run))
		}
		w.alone()
		if got := reply(t, w.ask("t", "What was it?")); !strings.Contains(got, "lemon") ||
			!strings.HasSuffix(got, " | What was it?") {
			t.Errorf("next reply %q, want the word", got)
		}
	})
}

func TestRealErrorsOfTheModel(t *testing.T) {
	eachProgram(t, func(t *testing.T, name string) {
		for _, status := range []int{429, 500, 529} {
			t.Run(strconv.Itoa(status), func(t *testing.T) {
				var well atomic.Bool
				w := newRealFixture(t, name, model(t, func(r fakemodel.Request) fakemodel.Answer {
					if well.Load() {
						return recall(r)
					}
					return fakemodel.Answer{Status: status}
				}).URL)
				out := w.send("t", "My word is lemon.")
				failed := entries[entry.RunRescheduled](w, "t", entry.KindRescheduled, 1)[0]
				well.Store(true)
				run := w.run(out.Run, mailroom.StatusCompleted)
				if failed.Error == nil || failed.Error.Class != mailroom.ClassUnavailable || run.Failures != 0 {
					t.Errorf("rescheduled with %+v and %d failures, want unavailable and none", failed.Error, run.Failures)
				}
				if !strings.Contains(reply(t, run), "lemon") {
					t.Errorf("reply %q", reply(t, run))
				}
			})
		}
		t.Run("401", func(t *testing.T) {
			w := newRealFixture(t, name, model(t, func(fakemodel.Request) fakemodel.Answer {
				return fakemodel.Answer{Status: 401}
			}).URL)
			sent := w.send("t", "Hello.").Run
			failed := entries[entry.RunRescheduled](w, "t", entry.KindRescheduled, 1)[0]
			if failed.Error == nil || !strings.Contains(failed.Error.Message, "401") {
				t.Errorf("rescheduled with %+v, want the 401", failed.Error)
			}
			// The login is a fault of the agent, not of the message: the run waits for the agent.
			run := w.run(sent, mailroom.StatusQueued)
			if run.Failures != 0 {
				t.Errorf("%d failures, want none", run.Failures)
			}
			if run.Reply != nil {
				t.Errorf("reply %q, want none: the error is not a reply", *run.Reply)
			}
		})
	})
}

func TestRealProgramWithoutAModelIsCut(t *testing.T) {
	eachProgram(t, func(t *testing.T, name string) {
		w := newRealFixture(t, name, "http://127.0.0.1:9", func(o *exec.ProgramOptions) { o.IdleTimeout = 3 * time.Second })
		out := w.send("t", "Hello.")
		failed := entries[entry.RunRescheduled](w, "t", entry.KindRescheduled, 1)[0]
		if failed.Error == nil || failed.Error.Class != mailroom.ClassUnavailable {
			t.Errorf("rescheduled with %+v, want an outage", failed.Error)
		}
		_, err := w.ledger.Cancel(t.Context(), out.Run, "anna")
		w.must(err)
		w.run(out.Run, mailroom.StatusCancelled)
		w.alone()
	})
}

func TestRealThreadsRunInParallel(t *testing.T) {
	eachProgram(t, func(t *testing.T, name string) {
		both := make(chan struct{})
		m := model(t, func(r fakemodel.Request) fakemodel.Answer {
			a := recall(r)
			a.Hold = both
			return a
		})
		w := newRealFixture(t, name, m.URL)
		a, b := w.send("a", "I am a."), w.send("b", "I am b.")
		if _, err := m.Wait(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		close(both)
		got := []string{reply(t, w.run(a.Run, mailroom.StatusCompleted)), reply(t, w.run(b.Run, mailroom.StatusCompleted))}
		if diff := cmp.Diff([]string{"You said: I am a.", "You said: I am b."}, got); diff != "" {
			t.Errorf("replies (-want +got):\n%s", diff)
		}
	})
}

func TestRealToolsAreEntries(t *testing.T) {
	eachProgram(t, func(t *testing.T, name string) {
		w := newRealFixture(t, name, model(t, func(r fakemodel.Request) fakemodel.Answer {
			if _, done := r.Result(); done {
				return fakemodel.Reply("I saw it.")
			}
			return fakemodel.Answer{Text: []string{"I look."}, Calls: []fakemodel.Call{look(name, "echo found")}}
		}).URL)
		w.ask("t", "Look around.")
		type tool struct {
			Call, Name, Summary string
			OK                  bool
		}
		started := entries[tool](w, "t", entry.KindToolStarted, 1)
		done := entries[tool](w, "t", entry.KindToolDone, 1)
		if len(started) != 1 || len(done) != 1 || started[0].Name == "" || started[0].Call != done[0].Call || !done[0].OK ||
			!strings.Contains(done[0].Summary, "found") {
			t.Errorf("started %+v, finished %+v, want one pair", started, done)
		}
	})
}

// maker is a model that creates a file with claude's shell tool.
func maker(r fakemodel.Request) fakemodel.Answer {
	if result, done := r.Result(); done {
		return fakemodel.Reply("It says: ", result)
	}
	return fakemodel.Answer{Calls: []fakemodel.Call{{Name: "Bash",
		Input: map[string]any{"command": "touch made && echo so be it", "description": "Make the file"}}}}
}

func TestRealQuestionOfClaudeIsATicket(t *testing.T) {
	for _, verdict := range []mailroom.Verdict{mailroom.VerdictApprove, mailroom.VerdictDeny} {
		t.Run(string(verdict), func(t *testing.T) {
			w := newRealFixture(t, "claude", model(t, maker).URL)
			out := w.send("t", "Make the file.")
			w.run(out.Run, mailroom.StatusWaiting)
			w.alone() // the run waits for a decision without a process
			tickets, err := w.ledger.Workers().Tickets(t.Context(),
				store.TicketQuery{States: []mailroom.TicketState{mailroom.TicketOpen}})
			w.must(err)
			if len(tickets) != 1 || tickets[0].Kind != mailroom.TicketApproval || tickets[0].Action != "Bash" ||
				!strings.Contains(string(tickets[0].Arguments), "touch made") {
				t.Fatalf("tickets %+v, want the approval of the command", tickets)
			}
			w.restart()
			_, err = w.ledger.Decide(t.Context(), thread.Decision{
				Ticket: tickets[0].ID, Verdict: verdict, Reason: "not allowed here", Digest: tickets[0].Digest, By: "anna",
			})
			w.must(err)
			run := w.run(out.Run, mailroom.StatusCompleted)
			_, err = os.Stat(w.work("made"))
			made, want := err == nil, "so be it"
			if verdict == mailroom.VerdictDeny {
				want = "not allowed here"
			}
			if made != (verdict == mailroom.VerdictApprove) || !made && !errors.Is(err, os.ErrNotExist) ||
				!strings.Contains(reply(t, run), want) {
				t.Errorf("made %v (%v), reply %q", made, err, reply(t, run))
			}
			if got := entries[exec.Session](w, "t", exec.KindSession, 1); len(got) != 1 {
				t.Errorf("sessions %+v, want one", got)
			}
		})
	}
}

func TestRealSteeringReachesClaudeAtWork(t *testing.T) {
	gate := make(chan struct{})
	m := model(t, func(r fakemodel.Request) fakemodel.Answer {
		if _, done := r.Result(); done || len(userTexts(r)) > 1 {
			return fakemodel.Reply("steered: ", strconv.FormatBool(r.Contains("Also say why.")))
		}
		return fakemodel.Answer{Hold: gate, Calls: []fakemodel.Call{look("claude", "echo found")}}
	})
	w := newRealFixture(t, "claude", m.URL)
	out := w.send("t", "Look around.")
	if _, err := m.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	w.send("t", "Also say why.", func(in *thread.Submit) { in.Mode = mailroom.ModeSteer })
	entries[entry.MessageRef](w, "t", entry.KindMessageRead, 1) // after it was written to the program
	close(gate)
	if got := reply(t, w.run(out.Run, mailroom.StatusCompleted)); !strings.Contains(got, "steered: true") {
		t.Errorf("reply %q, want the steered message", got)
	}
}

func TestRealSteeringAfterTheReplyIsAnotherTurn(t *testing.T) {
	gate := make(chan struct{})
	m := model(t, func(r fakemodel.Request) fakemodel.Answer {
		a := recall(r)
		if len(userTexts(r)) == 1 {
			a.Hold = gate
		}
		return a
	})
	w := newRealFixture(t, "claude", m.URL)
	live := w.bus.Subscribe("t", 1000)
	defer live.Close()
	out := w.send("t", "Look around.")
	w.delta(live, "You said")
	w.send("t", "Also say why.", func(in *thread.Submit) { in.Mode = mailroom.ModeSteer })
	entries[entry.MessageRef](w, "t", entry.KindMessageRead, 1)
	close(gate)
	if got, want := reply(t,
		w.run(out.Run, mailroom.StatusCompleted)), "You said: Look around. | Also say why."; got != want {
		t.Errorf("the reply is %q, want %q", got, want)
	}
	var texts []string
	for _, m := range entries[mailroom.Message](w, "t", entry.KindMessage, 4) {
		texts = append(texts, m.Text)
	}
	want := []string{"Look around.", "Also say why.", "You said: Look around.", "You said: Look around. | Also say why."}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestRealMessageMayBeLong(t *testing.T) {
	eachProgram(t, func(t *testing.T, name string) {
		m := model(t, func(fakemodel.Request) fakemodel.Answer { return fakemodel.Reply("I read it.") })
		w := newRealFixture(t, name, m.URL)
		text := strings.Repeat("All of it, to the last word. ", 10_000) + "The last word is lemon."
		w.ask("t", text)
		if got := m.Requests()[0]; !slices.Contains(userTexts(got), text) {
			t.Errorf("the model did not get all %d bytes", len(text))
		}
	})
}

func TestRealBusySessionIsRetried(t *testing.T) {
	gate := make(chan struct{})
	m := model(t, func(r fakemodel.Request) fakemodel.Answer {
		a := recall(r)
		if strings.HasSuffix(a.Text[1], "I am at the terminal.") {
			a.Hold = gate
		}
		return a
	})
	w := newRealFixture(t, "codex", m.URL)
	w.ask("t", "My word is lemon.")
	session := entries[exec.Session](w, "t", exec.KindSession, 1)[0].Session
	terminal := osexec.Command(installed(t, "codex"), "exec", "resume", "--json", "--skip-git-repo-check", session, "-")
	terminal.Env, terminal.Dir = append(os.Environ(), w.options.Env...), w.options.Dir
	terminal.Stdin = strings.NewReader("I am at the terminal.")
	w.must(terminal.Start())
	if _, err := m.Wait(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	out := w.send("t", "What was it?")
	failed := entries[entry.RunRescheduled](w, "t", entry.KindRescheduled, 1)[0]
	if failed.Error == nil || failed.Error.Class != mailroom.ClassUnavailable {
		t.Errorf("rescheduled with %+v, want no failure while a decision is open", failed.Error)
	}
	close(gate)
	w.must(terminal.Wait())
	got := reply(t, w.run(out.Run, mailroom.StatusCompleted))
	if !strings.HasPrefix(got, "You said: My word is lemon. | I am at the terminal. | ") ||
		!strings.HasSuffix(got, "What was it?") {
		t.Errorf("reply %q, want it in the session of both attempts", got)
	}
}

func TestRealPermissionsAreThoseOfTheSettings(t *testing.T) {
	for _, c := range []struct {
		name string
		mode program.Mode
		made bool
	}{
		{"codex", program.ModeRead, false}, {"codex", program.ModeEdit, true},
		{"claude", program.ModeRead, false}, {"claude", program.ModeEdit, true},
	} {
		t.Run(c.name+" "+string(c.mode), func(t *testing.T) {
			w := newRealFixture(t, c.name, model(t, func(r fakemodel.Request) fakemodel.Answer {
				if _, done := r.Result(); done {
					return fakemodel.Reply("I tried.")
				}
				return fakemodel.Answer{Calls: []fakemodel.Call{look(c.name, "touch made")}}
			}).URL, func(o *exec.ProgramOptions) { o.Permissions = c.mode })
			for range 2 { // the second time in the resumed session
				w.ask("t", "Make the file.")
				_, err := os.Stat(w.work("made"))
				if made := err == nil; made != c.made {
					t.Errorf("made %v, want %v", made, c.made)
				}
				w.must(os.RemoveAll(w.work("made")))
			}
		})
	}
}

func TestRealMessageIsTextAndNothingElse(t *testing.T) {
	eachProgram(t, func(t *testing.T, name string) {
		m := model(t, recall)
		w := newRealFixture(t, name, m.URL)
		outside := filepath.Join(w.folder, "outside.txt")
		w.must(os.WriteFile(outside, []byte("the word is damson"), 0o600))
		words := []string{"/clear", "/model sonnet", "/config theme=dark", "!echo so be it", "Look at @" + outside +
			" please."}
		for i, text := range words {
			want := "You said: " + strings.Join(words[:i+1], " | ")
			if got := reply(t, w.ask("t", text)); got != want {
				t.Errorf("to %q it answered %q, want %q", text, got, want)
			}
		}
		for _, r := range m.Requests() {
			if strings.Contains(string(r.Body), "damson") {
				t.Fatal("a message made the program send a file without permission")
			}
			if slices.Contains(r.Tools, "AskUserQuestion") {
				t.Fatal("the program has a tool for questions that an approval cannot answer")
			}
		}
	})
}

func TestRealCommandInTheBackgroundDoesNotHoldTheRun(t *testing.T) {
	w := newRealFixture(t, "claude", model(t, func(r fakemodel.Request) fakemodel.Answer {
		if result, done := r.Result(); done {
			return fakemodel.Reply(result)
		}
		return fakemodel.Answer{Calls: []fakemodel.Call{{Name: "Bash", Input: map[string]any{
			"command": "tail -f /dev/null", "description": "Follow", "run_in_background": true,
		}}}}
	}).URL, func(o *exec.ProgramOptions) {
		o.Permissions = program.ModeAll
		// Without the first variable, the program refuses all permissions as root. The second is
		// what an operator might set to enable background tasks.
		o.Env = append(o.Env, "IS_SANDBOX=1", "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=0")
	})
	if got, want := reply(t, w.ask("t", "Follow it.")), "Command running in background"; !strings.HasPrefix(got, want) {
		t.Errorf("the reply is %q, want it to begin with %q", got, want)
	}
	w.alone()
}
