package chat

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/display"
	"mailroom/store"
)

// DescribeRun returns what a run does, or what it waits for, as the rest of a sentence that begins with the agent. It
// shows no text of the run: names of tools, times and places only, because a chat has other readers than the run.
func DescribeRun(r store.Reader, run *mailroom.Run, now time.Time) (string, error) {
	since := "since " + Clock(run.StartedAt)
	switch {
	case run.Stop != "":
		return "is stopping.", nil
	case run.Status == mailroom.StatusRunning:
		tool, err := openCall(r, run)
		return "is running, " + since + "." + tool, err
	case run.Status == mailroom.StatusWaiting:
		what, err := awaited(r, run)
		return "waits for " + what + ", running " + since + ".", err
	}
	paused, err := PauseOf(r, run.Agent)
	switch {
	case err != nil:
		return "", err
	case paused != nil:
		return DescribePause(*paused), nil
	case run.NeverStarted() && run.Scheduled:
		return "begins at " + Clock(run.NotBefore) + ".", nil
	case run.NeverStarted():
		return "works in other conversations and has not begun.", nil
	case run.AvailableAt.Sub(now) > time.Second:
		return "will try again at " + Clock(run.AvailableAt) + ", running " + since + ".", nil
	}
	return "will resume, running " + since + ".", nil
}

// PauseOf returns the pause of an agent, nil if it is not paused.
func PauseOf(r store.Reader, agent string) (*store.Pause, error) {
	rows, err := r.Agents()
	for _, p := range rows.Pauses {
		if p.Agent == agent {
			return &p, err
		}
	}
	return nil, err
}

// DescribePause says until when an agent is paused. Its reason may quote a program, so it is for the operator only.
func DescribePause(p store.Pause) string {
	if p.Probe.IsZero() {
		return "is paused by the server's operator. Your message waits."
	}
	return "cannot work at present. The next try is at " + Clock(p.Probe) + ", and your message waits."
}

// PauseKey identifies a pause, so that a chat gets one notice of it.
func PauseKey(p store.Pause) string { return fmt.Sprintf("%s/%d", p.Agent, p.At.UnixMicro()) }

// Clock returns a time as chats show it.
func Clock(t time.Time) string { return t.UTC().Format("15:04:05 MST") }

// openCall names the tool whose call has not ended.
func openCall(r store.Reader, run *mailroom.Run) (string, error) {
	entries, err := r.Entries(store.EntryQuery{
		Thread: run.Thread, Run: run.ID, After: run.FirstSeq - 1, Backward: true, Limit: 20,
		Kinds: []string{entry.KindToolStarted, entry.KindToolDone},
	})
	if err != nil {
		return "", err
	}
	ended := map[string]bool{}
	for _, e := range entries {
		var call struct {
			Call string `json:"call"`
			Name string `json:"name"`
		}
		if e.Attempt != run.Attempt || e.Decode(&call) != nil {
			continue // an agent writes the body
		}
		if e.Kind == entry.KindToolDone {
			ended[call.Call] = true
		} else if !ended[call.Call] {
			return " It works with " + display.Cut(display.Line(cmp.Or(call.Name, "a tool")), 60) + " since " +
				Clock(e.At) + ".", nil
		}
	}
	return "", nil
}

// awaited says what a parked run waits for.
func awaited(r store.Reader, run *mailroom.Run) (string, error) {
	open, err := r.Tickets(store.TicketQuery{Runs: []string{run.ID}, States: []mailroom.TicketState{mailroom.TicketOpen}})
	has := func(kind mailroom.TicketKind) bool {
		return slices.ContainsFunc(open, func(k *mailroom.Ticket) bool { return k.Kind == kind })
	}
	switch {
	case has(mailroom.TicketApproval), has(mailroom.TicketInput):
		return "an answer", err
	case has(mailroom.TicketChildren):
		return "another agent", err
	case has(mailroom.TicketTimer):
		return "a time that it has set", err
	case has(mailroom.TicketEvent):
		return "an event", err
	}
	return "an answer", err
}
