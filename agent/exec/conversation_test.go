package exec_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/entry"
	"mailroom/thread"
)

func TestAThreadIsOneSessionOfTheProgram(t *testing.T) {
	h := newFixture(t, "")
	for _, want := range []string{"1: first", "2: second"} {
		_, text, _ := strings.Cut(want, ": ")
		run := h.send("t", text)
		if got := h.reply("t", run); got != want {
			t.Errorf("the reply is %q, want %q", got, want)
		}
		usage := mailroom.Usage{InputTokens: 10, OutputTokens: 5, CostUSD: 0.25}
		if got := h.ended("t", run).Usage; got != usage {
			t.Errorf("usage %+v, want %+v", got, usage)
		}
	}
	sessions := bodies[exec.Session](h, "t", exec.KindSession)
	if len(sessions) != 1 {
		t.Fatalf("sessions %+v, want one", sessions)
	}
	if diff := cmp.Diff([]string{"first", "second"}, h.requests(sessions[0].Session)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestThreadsHaveSessionsOfTheirOwnAtTheSameTime(t *testing.T) {
	h := newFixture(t, "")
	var all sync.WaitGroup
	for _, thread := range []string{"a", "b", "c"} {
		run := h.send(thread, "hello "+thread)
		all.Go(func() {
			if got, want := h.reply(thread, run), "1: hello "+thread; got != want {
				t.Errorf("the reply is %q, want %q", got, want)
			}
		})
	}
	all.Wait()
}

func TestMissingSessionIsReplacedWithTheTranscript(t *testing.T) {
	for name, lose := range map[string]func(h *fixture, session string) error{
		"the program does not know the session": func(h *fixture, session string) error {
			return os.Remove(h.home + "/" + session)
		},
		"the program is in another session": func(h *fixture, _ string) error {
			return os.WriteFile(h.home+"/elsewhere", nil, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, "")
			h.reply("t", h.send("t", "my name is Ada"))
			first := bodies[exec.Session](h, "t", exec.KindSession)[0]
			if err := lose(h, first.Session); err != nil {
				t.Fatal(err)
			}
			run := h.send("t", "what is it?")
			h.reply("t", run)
			sessions := bodies[exec.Session](h, "t", exec.KindSession)
			if len(sessions) != 2 {
				t.Fatalf("sessions %+v, want two", sessions)
			}
			want := exec.Session{Program: "claude", Session: sessions[1].Session, Lost: first.Session, Why: name, Messages: 2}
			if diff := cmp.Diff(want, sessions[1]); diff != "" || want.Session == first.Session {
				t.Errorf("the new session (-want +got):\n%s", diff)
			}
			got := h.requests(sessions[1].Session)
			said := "This conversation continued without you. The messages so far, one per line:\n" +
				`{"role":"user","text":"my name is Ada"}` + "\n" + `{"role":"assistant","text":"1: my name is Ada"}` + "\n\n" +
				"The current request:\n\nwhat is it?"
			if diff := cmp.Diff([]string{said}, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if attempt := h.ended("t", run).Attempt; attempt != 1 {
				t.Errorf("%d attempts, want 1", attempt)
			}
		})
	}
}

func TestInterruptedTurnResumesItsSession(t *testing.T) {
	h := newFixture(t, "")
	run := h.send("t", "!die once")
	h.reply("t", run)
	session := bodies[exec.Session](h, "t", exec.KindSession)[0].Session
	want := []string{"!die once",
		"You were interrupted while working on this. Check what is already done, then continue:\n\n!die once"}
	if diff := cmp.Diff(want, h.requests(session)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestAQuestionOfTheProgramIsATicket(t *testing.T) {
	h := newFixture(t, "")
	run := h.send("t", "!ask touch <it>.")
	var ticket mailroom.Ticket
	if err := h.await("t", run, entry.KindTicketOpened).Decode(&ticket); err != nil {
		t.Fatal(err)
	}
	h.await("t", run, entry.KindWaiting)
	var arguments struct{ Command string }
	if err := json.Unmarshal(ticket.Arguments, &arguments); err != nil {
		t.Fatal(err)
	}
	if ticket.Kind != mailroom.TicketApproval || ticket.Action != "Bash" ||
		ticket.Prompt != "claude asks to use Bash: a try" ||
		arguments.Command != "touch <it>" {
		t.Errorf("ticket %+v", ticket)
	}
	for _, m := range bodies[mailroom.Message](h, "t", entry.KindMessage)[1:] {
		if m.Visibility != mailroom.VisibleInternal || m.Partial {
			t.Errorf("intermediate message %+v, want an internal one", m)
		}
	}
	if _, err := h.Decide(t.Context(), thread.Decision{Ticket: ticket.ID, Verdict: mailroom.VerdictApprove,
		Digest: ticket.Digest, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	if got := h.reply("t", run); got != "It ran touch <it>" {
		t.Errorf("reply %q", got)
	}
	session := bodies[exec.Session](h, "t", exec.KindSession)[0].Session
	want := []string{"!ask touch <it>.", "Your call of Bash was allowed. Repeat it with exactly the same arguments."}
	if diff := cmp.Diff(want, h.requests(session)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	type done struct {
		OK      bool
		Summary string
	}
	tools := []done{{false, "waiting for approval"}, {true, "ran touch <it>"}}
	if diff := cmp.Diff(tools, bodies[done](h, "t", entry.KindToolDone)); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

// A new session does not know the decision and asks again.
func TestAQuestionIsAskedOnceInARun(t *testing.T) {
	h := newFixture(t, "")
	run := h.send("t", "!ask touch it.")
	h.await("t", run, entry.KindWaiting)
	session := bodies[exec.Session](h, "t", exec.KindSession)[0].Session
	if err := os.Remove(h.home + "/" + session); err != nil {
		t.Fatal(err)
	}
	ticket := bodies[mailroom.Ticket](h, "t", entry.KindTicketOpened)[0]
	if _, err := h.Decide(t.Context(), thread.Decision{Ticket: ticket.ID, Verdict: mailroom.VerdictDeny,
		Reason: "too risky", By: "ann"}); err != nil {
		t.Fatal(err)
	}
	if got := h.reply("t", run); got != "It was not to be: too risky" {
		t.Errorf("reply %q", got)
	}
	if n := len(bodies[mailroom.Ticket](h, "t", entry.KindTicketOpened)); n != 1 {
		t.Errorf("%d tickets were opened, want one", n)
	}
	requests := h.requests(bodies[exec.Session](h, "t", exec.KindSession)[1].Session)
	if !strings.Contains(requests[0], "!ask touch it.") ||
		!strings.Contains(requests[0], "Your call of Bash was denied: too risky. Continue without it.") {
		t.Errorf("the new session was asked %q, want the request and the decision", requests)
	}
}

func TestASteeredMessageGoesIntoTheLiveProgram(t *testing.T) {
	h := newFixture(t, "")
	run := h.send("t", "!hold")
	h.await("t", run, entry.KindToolStarted)
	if got := h.send("t", "rather this", func(in *thread.Submit) { in.Mode = mailroom.ModeSteer }); got != run {
		t.Fatalf("the message went to run %s, want %s", got, run)
	}
	if got := h.reply("t", run); got != "1: rather this" {
		t.Errorf("reply %q", got)
	}
}

func TestOverloadedModelIsUnavailable(t *testing.T) {
	h := newFixture(t, "")
	e := h.await("t", h.send("t", "!overload"), entry.KindRescheduled)
	var b entry.RunRescheduled
	if err := e.Decode(&b); err != nil {
		t.Fatal(err)
	}
	if wait := b.AvailableAt.Sub(e.At); b.Error.Class != mailroom.ClassUnavailable || wait < 2*time.Second {
		t.Errorf("retry after %v, error %+v; want 2s and unavailable", wait, b.Error)
	}
}

func TestCancelKeepsStreamedText(t *testing.T) {
	h := newFixture(t, "goes silent")
	run := h.sendAndRead("t", "go")
	if _, err := h.Cancel(t.Context(), run, "ann"); err != nil {
		t.Fatal(err)
	}
	if got := h.ended("t", run); got.Status != mailroom.StatusCancelled {
		t.Errorf("run is %s", got.Status)
	}
	messages := bodies[mailroom.Message](h, "t", entry.KindMessage)
	if m := messages[len(messages)-1]; m.Text != "half of it" || !m.Partial {
		t.Errorf("kept message %+v, want the partial text", m)
	}
}

// TestAStopLeavesAFinishedTurnItsReply stops a program that has ended its turn, and has only to exit.
func TestAStopLeavesAFinishedTurnItsReply(t *testing.T) {
	for _, in := range []string{"a folder", "a worktree"} {
		t.Run(in, func(t *testing.T) {
			h := newFixture(t, "is done, and does not go", func(o *exec.ProgramOptions) {
				if in == "a worktree" {
					o.Dir, o.Worktrees = newRoof(t), &exec.Worktrees{Root: filepath.Join(t.TempDir(), "worktrees")}
				}
			})
			exec.SetLingerTimeout(h.agent, time.Minute)
			run := h.send("t", "go")
			for {
				if _, err := os.Stat(filepath.Join(h.home, "done")); err == nil {
					break
				}
				<-time.After(5 * time.Millisecond)
			}
			if _, err := h.Cancel(t.Context(), run, "ann"); err != nil {
				t.Fatal(err)
			}
			got := h.ended("t", run)
			if got.Status != mailroom.StatusCompleted || got.Reply == nil || *got.Reply != "half of it" || got.Attempt != 1 ||
				got.Usage.InputTokens == 0 {
				t.Errorf("the run is %s after %d attempts, with the usage %+v", got.Status, got.Attempt, got.Usage)
			}
			made := bodies[entry.Tree](h, "t", entry.KindTree)
			if in == "a worktree" && (len(made) != 1 || made[0].Commits != 1) {
				t.Errorf("made %+v", made)
			}
		})
	}
}

func TestInvalidProgramOptionsAreRefused(t *testing.T) {
	h := &fixture{t: t}
	for name, change := range map[string]func(*exec.ProgramOptions){
		"no profile":       func(o *exec.ProgramOptions) { o.Profile = nil },
		"unknown mode":     func(o *exec.ProgramOptions) { o.Permissions = "root" },
		"NUL in arguments": func(o *exec.ProgramOptions) { o.Args = []string{"a\x00"} },
		"NUL in model":     func(o *exec.ProgramOptions) { o.Model = "a\x00" },
	} {
		o := h.options("")
		change(&o)
		if _, err := exec.NewProgram(o); err == nil {
			t.Errorf("%s: NewProgram succeeded, want an error", name)
		}
	}
}

func TestTheVersionOfAProgramIsRead(t *testing.T) {
	h := &fixture{t: t}
	if got, err := exec.Version(t.Context(), h.options("")); err != nil || got != "stub 1.2.3" {
		t.Errorf("version %q, %v", got, err)
	}
	silent := h.options("")
	silent.Program = "false"
	if got, err := exec.Version(t.Context(), silent); err == nil {
		t.Errorf("version of a program that prints none: %q", got)
	}
	if err := exec.Usable(h.options("")); err != nil {
		t.Errorf("Usable() = %v", err)
	}
	o := h.options("")
	o.Program = t.TempDir() + "/none"
	if err := exec.Usable(o); err == nil || strings.Contains(err.Error(), "/") {
		t.Errorf("Usable() of a missing program = %v, want an error without a path", err)
	}
	if os.Geteuid() == 0 {
		o = h.options("")
		o.Permissions = "all"
		if err := exec.Usable(o); err == nil || !strings.Contains(err.Error(), "IS_SANDBOX") {
			t.Errorf("Usable() with all permissions as root = %v, want an error with IS_SANDBOX", err)
		}
		o.Env = append(o.Env, "IS_SANDBOX=1")
		if err := exec.Usable(o); err != nil {
			t.Errorf("Usable() with all permissions as root in a sandbox = %v", err)
		}
	}
}
