package poll

import (
	"context"
	"fmt"
	"strings"
	"time"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/agent/exec/program"
	"mailroom/channel"
	"mailroom/entry"
	"mailroom/store"
)

// runEnding describes the end of a run without a reply.
type runEnding struct {
	agent   string
	status  mailroom.Status
	partial string        // text of the last attempt before it failed
	exit    int           // exit code; -1 after a timeout or a signal, or without a program
	timeout time.Duration // exceeded time limit; 0 for none
	stopped bool          // the run was cancelled
	reason  string        // explanation of the failure without program output; "" if unknown
}

// text returns the message sent in place of a reply.
func (e runEnding) text() string {
	if e.status == mailroom.StatusCompleted {
		return fmt.Sprintf("(%s returned empty output)", e.agent)
	}
	var lines []string
	switch partial := strings.TrimRight(e.partial, " \t\r\n"); {
	case partial != "":
		lines = append(lines, partial)
	case e.timeout > 0:
		lines = append(lines, fmt.Sprintf("(%s timed out after %ds)", e.agent, (e.timeout+time.Second/2)/time.Second))
	case e.stopped:
		lines = append(lines, fmt.Sprintf("(%s was stopped)", e.agent))
	}
	if e.reason != "" && e.timeout == 0 && !e.stopped {
		lines = append(lines, fmt.Sprintf("(%s failed: %s)", e.agent, e.reason))
	}
	return strings.Join(append(lines, fmt.Sprintf("(%s exit=%d)", e.agent, e.exit)), "\n")
}

// maxEntries bounds the entries of a run that are read.
const maxEntries = 100

// loadEnding reads the end of a run from its row and its last entries.
func loadEnding(ctx context.Context, l *channel.Host, run *mailroom.Run) (runEnding, error) {
	e := runEnding{agent: run.Agent, status: run.Status, exit: -1, stopped: run.Status == mailroom.StatusCancelled}
	var entries []mailroom.Entry
	err := l.View(ctx, func(r store.Reader) (err error) {
		entries, err = r.Entries(store.EntryQuery{
			Thread: run.Thread, Run: run.ID, After: run.FirstSeq - 1, Backward: true, Limit: maxEntries,
			Kinds: []string{entry.KindMessage, exec.KindExited},
		})
		return err
	})
	if err != nil {
		return e, err
	}
	if run.Error != nil {
		e.timeout, e.reason = parseDeadline(run.Error.Message), explainClass(run.Error.Class)
	}
	for i := len(entries) - 1; i >= 0; i-- { // oldest first
		if entry := entries[i]; entry.Attempt == run.Attempt {
			if err := e.add(entry); err != nil {
				return e, err
			}
		}
	}
	return e, nil
}

func (e *runEnding) add(item mailroom.Entry) error {
	if item.Kind == entry.KindMessage {
		var m mailroom.Message
		if err := item.Decode(&m); err != nil {
			return err
		}
		if m.Role == mailroom.RoleAssistant && m.Partial {
			e.partial = m.Text
		}
		return nil
	}
	var x exec.Exited
	if err := item.Decode(&x); err != nil {
		return err
	}
	if x.Class != "" {
		e.reason = explainClass(x.Class)
	}
	if why := explainFault(x.Fault); why != "" {
		e.reason = why
	}
	if x.ExitCode != nil && x.Stopped == "" {
		e.exit = *x.ExitCode
	}
	if x.LimitMS > 0 {
		e.timeout = time.Duration(x.LimitMS) * time.Millisecond
	}
	return nil
}

// explainClass explains a class of failure to a person who cannot read the log. It does not quote
// program output, which may contain keys and local paths.
func explainClass(c mailroom.Class) string {
	switch c {
	case mailroom.ClassUnavailable:
		return "its model, or another service that it needs, is unavailable or rate limited; try again later"
	case mailroom.ClassPermanent:
		return "its program refused this message; the same message will fail again"
	case mailroom.ClassTransient:
		return "its program ended with an error; another try may succeed"
	case mailroom.ClassCrashed:
		return "its server crashed several times during the run"
	}
	return ""
}

// explainFault explains a fault of the agent itself, "" for none.
func explainFault(fault string) string {
	switch program.Fault(fault) {
	case program.FaultLogin:
		return "it is not signed in"
	case program.FaultQuota:
		return "its account has no credit left"
	case program.FaultProgram:
		return "its program is missing or rejects its settings"
	}
	return ""
}

// parseDeadline returns the run deadline named in an error of the engine, or 0 for another error.
func parseDeadline(message string) time.Duration {
	length, found := strings.CutPrefix(message, "the run deadline of ")
	length, ended := strings.CutSuffix(length, " has passed")
	d, err := time.ParseDuration(length)
	if !found || !ended || err != nil {
		return 0
	}
	return d
}
