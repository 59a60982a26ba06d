package exec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/entry"
	"mailroom/thread"
)

// TestASessionThatCannotAnswerIsReplaced has a conversation that the model refuses for ever. The program's own words
// replace its session at once, and unknown words after one repeat; the next message is answered again.
func TestASessionThatCannotAnswerIsReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		why      string
		attempts int
	}{
		"words that say so": {"messages.3: `tool_use` ids were found without `tool_result` blocks", 1},
		"other words":       {"something new", 2},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, "")
			h.reply("t", h.send("t", "!poison "+c.why))
			run := h.send("t", "are you there?")
			if got := h.reply("t", run); !strings.Contains(got, exec.Continued) ||
				!strings.HasSuffix(got, "The current request:\n\nare you there?") {
				t.Errorf("the reply is %q, want one of a session with the transcript", got)
			}
			if got := h.ended("t", run).Attempt; got != c.attempts {
				t.Errorf("%d attempts, want %d", got, c.attempts)
			}
			sessions := bodies[exec.Session](h, "t", exec.KindSession)
			if len(sessions) != 2 || sessions[1].Lost != sessions[0].Session || !strings.Contains(sessions[1].Why, c.why) {
				t.Errorf("sessions %+v, want a second one that says why", sessions)
			}
		})
	}
}

// TestAFailedStartDoesNotCostTheSession fails starts that resume a session. What passes, and a single failure, leave
// it; a program that can never resume it gets a new one.
func TestAFailedStartDoesNotCostTheSession(t *testing.T) {
	const locked = "Error: failed to initialize sqlite state db: database is locked\n"
	for name, c := range map[string]struct {
		starts   string // what failed starts say, one per line
		sessions int
	}{
		"once":                      {"Error: something\n", 1},
		"twice":                     {"Error: something\nError: something\n", 2},
		"a file that is locked":     {locked, 1},
		"a file that stays locked":  {locked + locked + locked, 1},
		"a session that is unknown": {"No conversation found with session ID: x\n", 2},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, "")
			h.reply("t", h.send("t", "first"))
			if err := os.WriteFile(filepath.Join(h.home, "flaky"), []byte(c.starts), 0o600); err != nil {
				t.Fatal(err)
			}
			got := h.reply("t", h.send("t", "second"))
			sessions := bodies[exec.Session](h, "t", exec.KindSession)
			if len(sessions) != c.sessions {
				t.Errorf("sessions %+v, want %d", sessions, c.sessions)
			}
			if want := "2: second"; c.sessions == 1 && got != want {
				t.Errorf("the reply is %q, want %q: the plain message in the same session", got, want)
			}
		})
	}
}

// TestAConversationThatIsFullContinuesInAnother fills each session with its own work: the run gets two more sessions,
// not one after another for ever.
func TestAConversationThatIsFullContinuesInAnother(t *testing.T) {
	h := newFixture(t, "")
	r := h.ended("t", h.send("t", "!full"))
	if r.Status != mailroom.StatusFailed || r.Error.Class != mailroom.ClassPermanent ||
		!strings.Contains(r.Error.Message, "filled 3 sessions") {
		t.Errorf("the run is %s: %+v", r.Status, r.Error)
	}
	sessions := bodies[exec.Session](h, "t", exec.KindSession)
	if len(sessions) != 3 || sessions[1].Lost != sessions[0].Session || sessions[2].Lost != sessions[1].Session {
		t.Errorf("sessions %+v, want three, each instead of the one before", sessions)
	}
	if got, want := h.reply("t", h.send("t", "more")), "The current request:\n\nmore"; !strings.HasSuffix(got, want) {
		t.Errorf("the reply to the next message is %q, want one of a new session", got)
	}
}

// TestAMessageThatNoTurnBeganIsSentPlainly refuses a turn before the model answers: the repeat says nothing about an
// interruption.
func TestAMessageThatNoTurnBeganIsSentPlainly(t *testing.T) {
	h := newFixture(t, "")
	h.reply("t", h.send("t", "!limit"))
	session := bodies[exec.Session](h, "t", exec.KindSession)[0].Session
	if diff := cmp.Diff([]string{"!limit", "!limit"}, h.requests(session)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestASilentCallIsNotIdle holds a call open for many times the idle limit.
func TestASilentCallIsNotIdle(t *testing.T) {
	idle := 100 * time.Millisecond
	h := newFixture(t, "", func(o *exec.ProgramOptions) { o.StartTimeout, o.IdleTimeout = 10*time.Minute, idle })
	run := h.send("t", "!build")
	h.await("t", run, entry.KindToolStarted)
	timer := time.NewTimer(8 * idle)
	defer timer.Stop()
	<-timer.C
	if err := os.WriteFile(filepath.Join(h.home, "built"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var done struct{ OK bool }
	if err := h.await("t", run, entry.KindToolDone).Decode(&done); err != nil || !done.OK {
		t.Errorf("the call ended with %+v, %v: the program was stopped while it waited", done, err)
	}
}

// TestACallThatIsStoppedIsNotRepeated lets a call reach its limit: the program hears of it once, and the second time
// ends the run.
func TestACallThatIsStoppedIsNotRepeated(t *testing.T) {
	h := newFixture(t, "", func(o *exec.ProgramOptions) {
		o.StartTimeout, o.IdleTimeout, o.CallTimeout = 10*time.Minute, 10*time.Minute, 100*time.Millisecond
		o.KillGrace = exec.KillGrace{Interrupt: 50 * time.Millisecond, Terminate: 50 * time.Millisecond}
	})
	run := h.send("t", "!build")
	r := h.ended("t", run)
	if r.Status != mailroom.StatusFailed || r.Error.Class != mailroom.ClassPermanent || r.Attempt != 2 ||
		!strings.Contains(r.Error.Message, "a call of Bash wrote nothing for 100ms (call_timeout)") {
		t.Errorf("the run is %s after %d attempts: %+v", r.Status, r.Attempt, r.Error)
	}
	session := bodies[exec.Session](h, "t", exec.KindSession)[0].Session
	if got := h.requests(session); len(got) != 2 ||
		!strings.Contains(got[1], "Your last call of Bash was stopped, because it wrote nothing for too long.") {
		t.Errorf("requests %q, want a note about the call in the second", got)
	}
	if x := bodies[exec.Exited](h, "t", exec.KindExited)[0]; x.Limit != "call_timeout" || x.LimitMS != 100 {
		t.Errorf("stopped by %s of %d ms", x.Limit, x.LimitMS)
	}
}

// TestASessionThatFailsWithoutRepeatsIsReplaced has runs that are never repeated, as those of a bridge: the doubt about
// the session outlives the run, whether or not the program came as far as naming its session.
func TestASessionThatFailsWithoutRepeatsIsReplaced(t *testing.T) {
	once := func(in *thread.Submit) { in.MaxAttempts = 1 }
	for name, first := range map[string]string{"a refusal": "!poison something new", "a failed start": "first"} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, "")
			h.reply("t", h.send("t", first))
			if name == "a failed start" {
				if err := os.WriteFile(filepath.Join(h.home, "flaky"), []byte("Error: one\nError: two\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if r := h.ended("t", h.send("t", "are you there?", once)); r.Status != mailroom.StatusFailed {
				t.Fatalf("the first message is %s, want failed", r.Status)
			}
			if got := h.reply("t", h.send("t", "and now?", once)); !strings.Contains(got, exec.Continued) {
				t.Errorf("the reply is %q, want one of a new session", got)
			}
		})
	}
}

// TestADroppedSessionIsReplaced drops the session by hand, which is refused while a turn works in it.
func TestADroppedSessionIsReplaced(t *testing.T) {
	h := newFixture(t, "")
	h.reply("t", h.send("t", "first"))
	if _, err := h.PatchThread(t.Context(), "t", thread.Patch{DropSession: true}); err != nil {
		t.Fatal(err)
	}
	if got := h.reply("t", h.send("t", "second")); !strings.Contains(got, exec.Continued) ||
		!strings.HasPrefix(got, "1: ") {
		t.Errorf("the reply is %q, want one of a new session with the transcript", got)
	}
	run := h.send("t", "!build")
	h.await("t", run, entry.KindToolStarted)
	if _, err := h.PatchThread(t.Context(), "t",
		thread.Patch{DropSession: true}); mailroom.CodeOf(err) != mailroom.CodeConflict {
		t.Errorf("during a turn: %v, want a conflict", err)
	}
	if err := os.WriteFile(filepath.Join(h.home, "built"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.reply("t", run)
}
