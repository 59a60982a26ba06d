package exec_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/agent/exec/program"
	"mailroom/entry"
	"mailroom/thread"
)

// asACP makes a fixture run the stub of the Agent Client Protocol.
func asACP(o *exec.ProgramOptions) {
	o.Profile = program.NewACP([]string{"stub-agent"}, "")
	o.Env = append(o.Env, "EXEC_TEST_ROLE=acp")
}

func steered(in *thread.Submit) { in.Mode = mailroom.ModeSteer }

// prompts returns the messages of the user in a session of the stub, without their marks.
func prompts(h *fixture, session string) (texts []string) {
	h.t.Helper()
	raw, err := os.ReadFile(filepath.Join(h.home, session))
	if err != nil {
		h.t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var r acpRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			h.t.Fatal(err)
		}
		if mark, text, ok := strings.Cut(r.Text, "]\n\n"); r.Role == "user" && ok && strings.HasPrefix(mark, "[Mailroom ") {
			texts = append(texts, text)
		}
	}
	return texts
}

// onlySession returns the session of a thread that has had one.
func onlySession(h *fixture, thread string) string {
	h.t.Helper()
	sessions := bodies[exec.Session](h, thread, exec.KindSession)
	if len(sessions) != 1 {
		h.t.Fatalf("sessions %+v, want one", sessions)
	}
	return sessions[0].Session
}

func TestAThreadIsOneSessionOfAnACPAgent(t *testing.T) {
	h := newFixture(t, "", asACP)
	for n, text := range []string{"first", "/logout", "!think"} {
		run := h.send("t", text)
		want := fmt.Sprintf("%d: %s", n+1, text)
		if text == "!think" {
			want = "done"
		}
		if got := h.reply("t", run); got != want {
			t.Errorf("the reply is %q, want %q", got, want)
		}
		usage := mailroom.Usage{InputTokens: 10, OutputTokens: 5}
		if n == 0 {
			usage.CostUSD = 0.5 // it counts from the start of the session
		}
		if got := h.ended("t", run).Usage; got != usage {
			t.Errorf("usage %+v, want %+v", got, usage)
		}
	}
	if diff := cmp.Diff([]string{"first", "/logout", "!think"}, prompts(h, onlySession(h, "t"))); diff != "" {
		t.Errorf("prompts (-want +got):\n%s", diff)
	}
	type started struct {
		Name      string
		Arguments json.RawMessage
	}
	calls := bodies[started](h, "t", entry.KindToolStarted)
	if len(calls) != 1 || calls[0].Name != "read" || string(calls[0].Arguments) != `{"path":"a.go"}` {
		t.Errorf("calls %s, want the one with its input", calls)
	}
}

// decideOn decides the only question of a run once the run waits for it, and returns its ticket.
func decideOn(h *fixture, run string, verdict mailroom.Verdict, answer any) mailroom.Ticket {
	h.t.Helper()
	var k mailroom.Ticket
	if err := h.await("t", run, entry.KindTicketOpened).Decode(&k); err != nil {
		h.t.Fatal(err)
	}
	h.await("t", run, entry.KindWaiting)
	d := thread.Decision{Ticket: k.ID, Verdict: verdict, Digest: k.Digest, By: "ann", Reason: "too risky"}
	if answer != nil {
		d.Answer, _ = json.Marshal(answer) // a string
	}
	if _, err := h.Decide(h.t.Context(), d); err != nil {
		h.t.Fatal(err)
	}
	return k
}

func TestAPermissionOfAnACPAgentIsATicket(t *testing.T) {
	for _, c := range []struct {
		does    string
		verdict mailroom.Verdict
		answer  any
		want    string
	}{
		{"", mailroom.VerdictApprove, nil, "It ran touch it by yes"},
		{"", mailroom.VerdictDeny, nil,
			`2: Your call of execute with {"command":"touch it"} was denied: too risky. Continue without it.`},
		{"ends the turn when cancelled", mailroom.VerdictApprove, nil, "It ran touch it by yes"},
		{"ignores the cancellation", mailroom.VerdictApprove, nil, "It ran touch it by yes"},
		{"dies in the question", mailroom.VerdictApprove, nil, "It ran touch it by yes"},
		{"offers two ways", mailroom.VerdictAnswer, "Yes, in a sandbox", "It ran touch it by yes-2"},
		{"offers two ways", mailroom.VerdictAnswer, "whatever",
			`2: Your call of execute with {"command":"touch it"} was denied: no person chose one of the ways in which it ` +
				`can be allowed. Continue without it.`},
	} {
		t.Run(fmt.Sprint(c.does, ",", c.verdict, c.answer), func(t *testing.T) {
			h := newFixture(t, c.does, asACP)
			run := h.send("t", "!ask touch it.")
			k := decideOn(h, run, c.verdict, c.answer)
			if k.Kind != mailroom.TicketApproval || k.Action != "execute" || string(k.Arguments) != `{"command":"touch it"}` ||
				!strings.HasPrefix(k.Prompt, "stub-agent asks to use execute: a try") {
				t.Errorf("ticket %+v", k)
			}
			if got := h.reply("t", run); got != c.want {
				t.Errorf("reply %q, want %q", got, c.want)
			}
			if n := len(bodies[mailroom.Ticket](h, "t", entry.KindTicketOpened)); n != 1 {
				t.Errorf("%d tickets were opened, want one", n)
			}
			onlySession(h, "t")
		})
	}
}

func TestAnACPAgentGetsNoStandingRule(t *testing.T) {
	for does, want := range map[string]string{
		"offers only a rule": "It was not to be: no",
		"":                   "It ran touch it by yes", // with all permissions no person is asked
	} {
		h := newFixture(t, does, asACP, func(o *exec.ProgramOptions) {
			if does == "" {
				o.Permissions, o.Profile = program.ModeAll, program.NewACP([]string{"stub-agent"}, "default")
			}
		})
		e := h.await("t", h.send("t", "!ask touch it."), entry.KindWaiting, entry.KindCompleted)
		if e.Kind != entry.KindCompleted {
			t.Errorf("%s: a person was asked", does)
		} else if got := outcome(t, e); got != "completed: "+want {
			t.Errorf("%s: %q, want the reply %q", does, got, want)
		}
	}
}

// TestAnACPAgentThatIsKilledGoesOn kills the agent at each point of a turn.
func TestAnACPAgentThatIsKilledGoesOn(t *testing.T) {
	interrupted := "You were interrupted while working on this. Check what is already done, then continue:\n\ngo"
	answered := "Your last message may have been cut off, and did not arrive. If it was your complete answer to the " +
		"following request, write it once more and do nothing else. Otherwise check what is done, and continue.\n\ngo"
	absent := "If you already worked on the following request, check what is done, and do only the rest.\n\ngo"
	for _, c := range []struct {
		at, reply string
		prompts   []string
	}{
		{"initialize", "1: go", []string{"go"}},
		{"session/new", "1: go", []string{"go"}},
		{"session/set_mode", "", []string{absent}},
		{"session/prompt", "", []string{absent}},
		{"after it has the prompt", "", []string{"go", interrupted}},
		{"before it ends the turn", "", []string{"go", answered}},
	} {
		t.Run(c.at, func(t *testing.T) {
			does := "dies at " + c.at
			if !strings.Contains(c.at, "/") && c.at != "initialize" {
				does = "dies " + c.at
			}
			h := newFixture(t, does, asACP)
			run := h.send("t", "go")
			want := c.reply
			if want == "" {
				want = fmt.Sprintf("%d: %s", len(c.prompts), c.prompts[len(c.prompts)-1])
			}
			if got := h.reply("t", run); got != want {
				t.Errorf("reply %q, want %q", got, want)
			}
			sessions := bodies[exec.Session](h, "t", exec.KindSession)
			if diff := cmp.Diff(c.prompts, prompts(h, sessions[len(sessions)-1].Session)); diff != "" {
				t.Errorf("prompts (-want +got):\n%s", diff)
			}
			if got := h.ended("t", run).Attempt; got != 2 {
				t.Errorf("%d attempts, want 2", got)
			}
		})
	}
}

func TestCancelEndsTheTurnOfAnACPAgent(t *testing.T) {
	for _, does := range []string{"", "ends the turn when cancelled", "ignores the cancellation"} {
		t.Run(does, func(t *testing.T) {
			h := newFixture(t, does, asACP)
			run := h.sendAndRead("t", "!work")
			if _, err := h.Cancel(t.Context(), run, "ann"); err != nil {
				t.Fatal(err)
			}
			if got := h.ended("t", run); got.Status != mailroom.StatusCancelled {
				t.Errorf("run is %s", got.Status)
			}
			raw, err := os.ReadFile(filepath.Join(h.home, onlySession(h, "t")))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := strings.Contains(string(raw), `"stopped"`), does != "ignores the cancellation"; got != want {
				t.Errorf("the agent ended its turn by itself: %v, want %v; session %s", got, want, raw)
			}
			if got := h.reply("t", h.send("t", "again")); !strings.HasSuffix(got, ": again") {
				t.Errorf("reply %q after the cancelled turn", got)
			}
		})
	}
}

// TestARunEndsInTimeWhateverItsACPAgentDoes has agents that hang or send what they must not. Every run ends in time and
// leaves no process.
func TestARunEndsInTimeWhateverItsACPAgentDoes(t *testing.T) {
	short := 400 * time.Millisecond
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "THE AGENT\tENDED AS\tPROCESSES LEFT")
	for _, c := range []struct{ does, want string }{
		{"never answers", "transient: stub-agent was stopped: no output before the start timeout (start_timeout 400ms)"},
		{"answers late", "completed: 1: go"},
		{"never ends the turn", "transient: stub-agent was stopped: no output before the idle timeout (idle_timeout 400ms)"},
		{"is done, and does not go", "completed: 1: go"},
		{"speaks another version", "permanent: stub-agent failed: it speaks version 2 of the protocol, and Mailroom " +
			"version 1: use another version of the agent"},
		{"has no login", "unavailable: stub-agent failed: not logged in: Authentication required; sign in with the agent " +
			"itself (A login)"},
		{"has no modes", "completed: 1: go"},
		{"writes a line of 10 MB", "completed: 1: go"},
		{"writes a line of 20 MB", "permanent: stub-agent wrote a line of more than 16777216 bytes, which may be the " +
			"answer that the turn waits for"},
		{"asks for what is not offered", "completed: 1: go"},
		{"writes what is not JSON", "completed: 1: go"},
		{"ends with refusal", "permanent: stub-agent failed: the turn ended with refusal"},
		{"fails with 529", "unavailable: stub-agent failed: Internal error: API error, status 529 overloaded"},
	} {
		t.Run(c.does, func(t *testing.T) {
			h := newFixture(t, c.does, asACP, func(o *exec.ProgramOptions) {
				o.StartTimeout, o.IdleTimeout = 10*time.Minute, time.Minute
				switch {
				case strings.Contains(c.want, "start_timeout"):
					o.StartTimeout = short
				case strings.Contains(c.want, "idle_timeout"):
					o.IdleTimeout = short
				}
				o.KillGrace = exec.KillGrace{Interrupt: 50 * time.Millisecond, Terminate: 50 * time.Millisecond}
			})
			e := h.await("t", h.send("t", "go"), entry.KindRescheduled, entry.KindFailed, entry.KindCompleted)
			got := outcome(t, e)
			left := processesOf(t, t.Name(), 1)
			fmt.Fprintf(w, "%s\t%s\t%d\n", c.does, got, len(left))
			if got != c.want {
				t.Errorf("end %q, want %q", got, c.want)
			}
			if len(left) > 0 {
				t.Errorf("processes %v still run", left)
			}
		})
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
}

func TestAnACPAgentThatKeepsNoSessionsGetsTheTranscript(t *testing.T) {
	h := newFixture(t, "keeps no sessions", asACP)
	h.reply("t", h.send("t", "my name is Ada"))
	got := h.reply("t", h.send("t", "what is it?"))
	for _, want := range []string{"my name is Ada", "what is it?"} {
		if !strings.Contains(got, want) {
			t.Errorf("reply %q lacks %q", got, want)
		}
	}
}

func TestASteeredMessageGoesIntoTheTurnOfAnACPAgent(t *testing.T) {
	interrupted := "You were interrupted while working on this. Check what is already done, then continue:\n\n!hold\n\n" +
		"rather this"
	for _, c := range []struct {
		does, reply string
		prompts     []string
	}{
		{"takes a message", "I held, and heard rather this", []string{"!hold", "rather this"}},
		{"refuses a message", "2: rather this", []string{"!hold", "rather this"}},
		{"ends before it gets a message", "2: rather this", []string{"!hold", "rather this"}},
		{"drops a message for a question", "It ran touch it by yes", []string{"!hold",
			"You may have read this message already:\n\nrather this\n\n" +
				`Your call of execute with {"command":"touch it"} was allowed. Repeat it with exactly the same arguments.`}},
		{"dies after a message", "", []string{"!hold", "rather this", interrupted}},
	} {
		t.Run(c.does, func(t *testing.T) {
			h := newFixture(t, c.does, asACP)
			run := h.sendAndRead("t", "!hold")
			if got := h.send("t", "rather this", steered); got != run {
				t.Fatalf("the message went to run %s, want %s", got, run)
			}
			if strings.Contains(c.does, "question") {
				decideOn(h, run, mailroom.VerdictApprove, nil)
			}
			if got := h.reply("t", run); c.reply != "" && got != c.reply {
				t.Errorf("reply %q, want %q", got, c.reply)
			}
			if diff := cmp.Diff(c.prompts, prompts(h, onlySession(h, "t"))); diff != "" {
				t.Errorf("messages of the session (-want +got):\n%s", diff)
			}
			h.await("t", run, entry.KindMessageRead)
		})
	}
}

// TestASteeredMessageIsTheNextRunOfAnACPAgentThatTakesNone has an agent that does not announce that it takes messages
// in a turn. A second prompt in the turn would be one that the protocol does not define.
func TestASteeredMessageIsTheNextRunOfAnACPAgentThatTakesNone(t *testing.T) {
	h := newFixture(t, "", asACP)
	run := h.sendAndRead("t", "!hold")
	h.send("t", "rather this", steered)
	<-time.After(3 * exec.SteerInterval) // the message must not come in this time
	if err := os.WriteFile(filepath.Join(h.home, "go on"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := h.reply("t", run); got != "I held" {
		t.Errorf("reply %q", got)
	}
	for _, e := range h.entries("t") {
		if e.Kind != entry.KindQueued || e.Run == run {
			continue
		}
		if got := h.reply("t", e.Run); got != "2: rather this" {
			t.Errorf("the run of the message has the reply %q", got)
		}
		return
	}
	t.Error("the message is not a run of its own")
}

func TestAnACPAgentLacksAModeOrAModel(t *testing.T) {
	for name, change := range map[string]func(*exec.ProgramOptions){
		`stub-agent failed: has no mode "plan"; set mode to one of auto, default`: func(o *exec.ProgramOptions) {
			o.Profile = program.NewACP([]string{"stub-agent"}, "plan")
		},
		`stub-agent failed: offers no choice of models; remove the model "m-1" from the configuration, or from the options ` +
			`of the message`: func(o *exec.ProgramOptions) { o.Model = "m-1" },
	} {
		h := newFixture(t, "", asACP, change)
		if got := outcome(t, h.await("t", h.send("t", "go"), entry.KindFailed)); got != "permanent: "+name {
			t.Errorf("end %q, want %q", got, name)
		}
	}
}

func TestTheVersionOfAnACPAgentIsRead(t *testing.T) {
	h := &fixture{t: t}
	o := h.options("")
	asACP(&o)
	if got, err := exec.Version(t.Context(), o); err != nil || got != "stub 1.2.3" {
		t.Errorf("version %q, %v", got, err)
	}
}
