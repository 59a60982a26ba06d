package poll

import (
	"context"
	"fmt"
	"strings"
	"time"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/channel"
)

// runEnding is how a run ended that has no reply.
type runEnding struct {
	agent   string
	status  mailroom.Status
	partial string        // in its last attempt, before that broke off
	exit    int           // of its program; -1: it had a time-out or a signal, or is no program
	timeout time.Duration // that it passed; 0: none
	stopped bool          // somebody had it stopped
	reason  string        // it failed, in plain words without what its program wrote; "" if it is not known
}

// text is what the person reads in place of a reply.
func (e runEnding) text() string {
	if e.status == mailroom.StatusCompleted {
		return fmt.Sprintf("(%s returned empty output)", e.agent)
	}
	var lines []string
	switch said := strings.TrimRight(e.partial, " \t\r\n"); {
	case said != "":
		lines = append(lines, said)
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

// maxEntries is how many entries of a run are looked at for its end.
const maxEntries = 100

// loadEnding reads how a run ended from its row and its last entries.
func loadEnding(ctx context.Context, l *channel.Host, run *mailroom.Run) (runEnding, error) {
	e := runEnding{agent: run.Agent, status: run.Status, exit: -1, stopped: run.Status == mailroom.StatusCancelled}
	var entries []mailroom.Entry
	err := l.View(ctx, func(r mailroom.Reader) (err error) {
		entries, err = r.Entries(mailroom.EntryQuery{
			Thread: run.Thread, Run: run.ID, After: run.FirstSeq - 1, Backward: true, Limit: maxEntries,
			Kinds: []string{mailroom.KindMessage, exec.KindExited},
		})
		return err
	})
	if err != nil {
		return e, err
	}
	if run.Error != nil {
		e.timeout, e.reason = parseDeadline(run.Error.Message), explainClass(run.Error.Class)
	}
	for i := len(entries) - 1; i >= 0; i-- { // in the order in which it happened
		if entry := entries[i]; entry.Attempt == run.Attempt {
			if err := e.add(entry); err != nil {
				return e, err
			}
		}
	}
	return e, nil
}

func (e *runEnding) add(entry mailroom.Entry) error {
	if entry.Kind == mailroom.KindMessage {
		var m mailroom.Message
		if err := entry.Decode(&m); err != nil {
			return err
		}
		if m.Role == mailroom.RoleAssistant && m.Partial {
			e.partial = m.Text
		}
		return nil
	}
	var x exec.Exited
	if err := entry.Decode(&x); err != nil {
		return err
	}
	if x.Class != "" {
		e.reason = explainClass(x.Class)
	}
	if x.ExitCode != nil && x.Stopped == "" {
		e.exit = *x.ExitCode
	}
	if x.LimitMS > 0 {
		e.timeout = time.Duration(x.LimitMS) * time.Millisecond
	}
	return nil
}

// explainClass says what a class of failure means to a person who cannot read the log. What
// the program wrote stays there: it may name keys and paths of the machine.
func explainClass(c mailroom.Class) string {
	switch c {
	case mailroom.ClassUnavailable:
		return "its model, or another service that it needs, is not available or limits it; try again later"
	case mailroom.ClassPermanent:
		return "it cannot do this as it is set up, for example without being signed in; the same message will fail again"
	case mailroom.ClassTransient:
		return "its program ended with an error; it may work the next time"
	case mailroom.ClassCrashed:
		return "the server that runs it ended several times while it worked"
	}
	return ""
}

// parseDeadline is the run deadline that an error of the engine names; 0 if it is
// about something else.
func parseDeadline(message string) time.Duration {
	length, found := strings.CutPrefix(message, "the run deadline of ")
	length, ended := strings.CutSuffix(length, " has passed")
	d, err := time.ParseDuration(length)
	if !found || !ended || err != nil {
		return 0
	}
	return d
}
