package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/store"
	"mailroom/thread"
)

// park ends the attempt of a claimed run, which then waits for all of asks. For a child it sends to
// a thread whose agent has no worker.
func (f *fixture) park(w thread.ClaimedRun, asks ...mailroom.Ask) {
	f.t.Helper()
	wait := &mailroom.Wait{}
	var step mailroom.Step
	var rest []mailroom.Ask
	for _, a := range asks {
		wait.Names = append(wait.Names, a.Name)
		if a.Kind != mailroom.TicketChildren {
			rest = append(rest, a)
			continue
		}
		step.Sends = append(step.Sends, mailroom.Send{
			Name: a.Name, Thread: w.Claim.Thread + "-child", Agent: "far", Parts: mailroom.Text("help"),
			Answer: mailroom.AnswerWait,
		})
	}
	number := w.Run.Step + 1
	if len(step.Sends) > 0 {
		if _, err := f.ledger.Workers().Append(f.t.Context(),
			thread.StepCommit{Claim: w.Claim, Number: number, Step: step}); err != nil {
			f.t.Fatal(err)
		}
		number++
	}
	f.settle(thread.Settle{Claim: w.Claim, Number: number, Outcome: thread.OutcomePark, Wait: wait, Asks: rest})
}

func (f *fixture) settle(s thread.Settle) {
	f.t.Helper()
	if _, err := f.ledger.Workers().Settle(f.t.Context(), s); err != nil {
		f.t.Fatal(err)
	}
}

func newAsk(kind mailroom.TicketKind) mailroom.Ask {
	a := mailroom.Ask{Name: "q", Kind: kind, Prompt: "May I?"}
	if kind == mailroom.TicketTimer {
		a.After = time.Hour
	}
	return a
}

// threadState is a thread before a submit. current is its current run and queued a run that has not
// started; either may be "".
type threadState struct {
	f               *fixture
	thread          string
	current, queued string
	held            *thread.ClaimedRun // claim of the current run while it runs
}

// newThreadIn creates a thread in a state, with or without a queued run. No other thread may have
// due work.
func (f *fixture) newThreadIn(t *testing.T, thread, state string, queue bool) *threadState {
	t.Helper()
	s := &threadState{f: f, thread: thread}
	if state != "idle" {
		s.current = f.submit(thread, "one").Run
	}
	if state == "queued only" {
		s.queued, s.current = s.current, ""
	}
	if s.current == "" {
		return s
	}
	w := f.claim()
	s.held = &w
	if queue {
		s.queued = f.submit(thread, "two").Run
	}
	if state == "stopping" {
		if a := f.call("POST /v1/runs/"+s.current+"/cancel", ""); a.status != 202 {
			t.Fatalf("cancel of a running run: %d %s", a.status, a.body)
		}
	}
	if kind, ok := strings.CutPrefix(state, "waits for "); ok {
		f.park(w, newAsk(mailroom.TicketKind(kind)))
		s.held = nil
	}
	return s
}

// cleanUp ends all work of the thread.
func (s *threadState) cleanUp(t *testing.T) {
	t.Helper()
	s.f.call("POST /v1/threads/"+s.thread+"/interrupt", "")
	if s.held != nil {
		s.f.settleRun(*s.held, thread.OutcomeRelease, "")
	}
	if got := mustCall[api.Thread](s.f, "GET /v1/threads/"+s.thread, ""); got.Status != api.ThreadIdle {
		t.Errorf("thread is %s after an interrupt", got.Status)
	}
}

// submit submits in a mode and describes the effect in the terms of the table. It checks that
// response and rows agree.
func (s *threadState) submit(t *testing.T, mode mailroom.Mode) string {
	t.Helper()
	a := s.f.call("POST /v1/threads/"+s.thread+"/messages", fmt.Sprintf(`{"text":"new","mode":%q}`, mode))
	if a.status == 409 {
		if p := a.problem(t); p.Code != mailroom.CodeBusy {
			t.Errorf("refused as %s, want busy", p.Code)
		}
		return "409"
	}
	var out store.Submitted
	if err := json.Unmarshal([]byte(a.body), &out); err != nil || a.status != 202 {
		t.Fatalf("status %d, %v: %s", a.status, err, a.body)
	}
	var effects []string
	if s.queued != "" {
		gone := s.status(s.queued) == mailroom.StatusCancelled
		if listed := slices.Equal(out.Superseded, []string{s.queued}); listed != gone {
			t.Errorf("superseded %v, but queued run %s is %s", out.Superseded, s.queued, s.status(s.queued))
		}
		if gone {
			effects = append(effects, "supersedes")
		}
	}
	if out.Stopping != nil {
		if *out.Stopping != s.current || s.status(s.current) != mailroom.StatusRunning {
			t.Errorf("stopping run %s, which is %s", *out.Stopping, s.status(*out.Stopping))
		}
		effects = append(effects, "asks to stop")
	}
	if s.current != "" && s.status(s.current) == mailroom.StatusCancelled {
		effects = append(effects, "cancels it")
	}
	effects = append(effects, s.disposition(out, len(effects))...)
	return strings.Join(append(effects, s.tickets()...), ", ")
}

func (s *threadState) disposition(out store.Submitted, effects int) []string {
	switch out.Disposition {
	case store.DispositionSteered, store.DispositionResumed:
		if out.Run != s.current {
			return []string{"went to another run"}
		}
		return []string{string(out.Disposition)}
	case store.DispositionCollected:
		if out.Run != s.queued {
			return []string{"joined another run"}
		}
		return []string{"joins"}
	}
	switch {
	case out.Run == s.current || out.Run == s.queued || s.status(out.Run) != mailroom.StatusQueued:
		return []string{"made no run"}
	case effects > 0:
		return nil
	case s.current == "" && s.queued == "":
		return []string{"queued"}
	}
	return []string{"behind"}
}

// tickets describes the ticket, unless neither it nor its run has changed.
func (s *threadState) tickets() []string {
	page := mustCall[api.Page[api.Ticket]](s.f, "GET /v1/tickets?q=thread:"+s.thread, "")
	if len(page.Items) == 0 {
		return nil
	}
	switch state := page.Items[0].State; {
	case state == mailroom.TicketVoid:
		return []string{"tickets void"}
	case state == mailroom.TicketDecided:
		return []string{"answered"}
	case s.status(s.current) == mailroom.StatusQueued:
		return []string{"tickets stay open"}
	}
	return nil
}

func (s *threadState) status(run string) mailroom.Status {
	s.f.t.Helper()
	return mustCall[api.Run](s.f, "GET /v1/runs/"+run, "").Status
}

// TestSubmitModes checks every cell of the documented table of modes, with and without a queued
// run, and logs the table.
func TestSubmitModes(t *testing.T) {
	const (
		stop  = "asks to stop"
		drops = "supersedes"
		ends  = "cancels it, tickets void"
		open  = "resumed, tickets stay open"
	)
	modes := []mailroom.Mode{
		mailroom.ModeQueue, mailroom.ModeSteer, mailroom.ModeInterrupt,
		mailroom.ModeLatest, mailroom.ModeCollect, mailroom.ModeReject,
	}
	answered := "resumed, answered"
	f := start(t)
	var table strings.Builder
	fmt.Fprintf(&table, "\n| thread is | %s |\n|%s", joinModes(modes), strings.Repeat(" --- |", len(modes)+1))
	for at, row := range []struct {
		state string
		queue bool
		want  [6]string
	}{
		{"idle", false, [6]string{"queued", "queued", "queued", "queued", "queued", "queued"}},
		{"queued only", false, [6]string{"behind", "behind", drops, drops, "joins", "409"}},
		{"running", false, [6]string{"behind", "steered", stop, "behind", "behind", "409"}},
		{"running", true, [6]string{"behind", "steered", drops + ", " + stop, drops, "joins", "409"}},
		{"stopping", false, [6]string{"behind", "behind", stop, "behind", "behind", "409"}},
		{"stopping", true, [6]string{"behind", "behind", drops + ", " + stop, drops, "joins", "409"}},
		{"waits for input", false, [6]string{answered, answered, ends, answered, answered, answered}},
		{"waits for input", true, [6]string{answered, answered, drops + ", " + ends, drops + ", " + answered, answered, answered}},
		{"waits for approval", false, [6]string{"behind", "steered", ends, "behind", "behind", "409"}},
		{"waits for approval", true, [6]string{"behind", "steered", drops + ", " + ends, drops, "joins", "409"}},
		{"waits for children", false, [6]string{open, open, ends, open, open, "409"}},
		{"waits for children", true, [6]string{open, open, drops + ", " + ends, drops + ", " + open, open, "409"}},
		{"waits for timer", false, [6]string{open, open, ends, open, open, "409"}},
		{"waits for timer", true, [6]string{open, open, drops + ", " + ends, drops + ", " + open, open, "409"}},
		{"waits for event", false, [6]string{open, open, ends, open, open, "409"}},
		{"waits for event", true, [6]string{open, open, drops + ", " + ends, drops + ", " + open, open, "409"}},
	} {
		name := row.state
		if row.queue {
			name += ", one queued"
		}
		fmt.Fprintf(&table, "\n| %s |", name)
		for i, mode := range modes {
			t.Run(fmt.Sprintf("%s/%s", name, mode), func(t *testing.T) {
				s := f.newThreadIn(t, fmt.Sprintf("t%d-%s", at, mode), row.state, row.queue)
				got := s.submit(t, mode)
				s.cleanUp(t)
				fmt.Fprintf(&table, " %s |", got)
				if got != row.want[i] {
					t.Errorf("got %q, want %q", got, row.want[i])
				}
			})
		}
	}
	t.Log(table.String())
}

func joinModes(modes []mailroom.Mode) string {
	var names []string
	for _, m := range modes {
		names = append(names, string(m))
	}
	return strings.Join(names, " | ")
}

func TestAMessageSteeredIntoAWaitIsReadOnResume(t *testing.T) {
	s := start(t).newThreadIn(t, "t", "waits for approval", false)
	steered := mustCall[store.Submitted](s.f, "POST /v1/threads/t/messages", `{"text":"mind the gap","mode":"steer"}`)
	path := "GET /v1/threads/t/messages/" + steered.Message
	if got := mustCall[mailroom.Message](s.f, path, ""); got.State != mailroom.MessageAccepted {
		t.Errorf("while it waits the message is %s, want accepted", got.State)
	}
	ticket := mustCall[api.Page[api.Ticket]](s.f, "GET /v1/tickets?q=state:open", "").Items[0]
	mustCall[api.Ticket](s.f, "POST /v1/tickets/"+ticket.ID, `{"decision":"approve","digest":"`+ticket.Digest+`"}`)
	w := s.f.claim()
	if _, err := s.f.ledger.Workers().MarkSteersRead(t.Context(), w.Claim); err != nil {
		t.Fatal(err)
	}
	if got := mustCall[mailroom.Message](s.f, path, ""); got.State != mailroom.MessageRead || w.Claim.Run != s.current {
		t.Errorf("message is %[2]s after run %[1]s resumed, want read", w.Claim.Run, got.State)
	}
}

func TestAnUnstartedRunIsJoinedByItsOwnAgentOnly(t *testing.T) {
	s := start(t).newThreadIn(t, "t", "running", true)
	got := mustCall[store.Submitted](s.f, "POST /v1/threads/t/messages", `{"text":"new","mode":"collect","agent":"codex"}`)
	if got.Disposition != store.DispositionQueued || got.Run == s.queued {
		t.Errorf("a collect for another agent was %s, want queued", got.Disposition)
	}
}
