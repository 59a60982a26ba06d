package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/entry"
	"mailroom/project"
)

// Kinds of entries that agents of kind exec write.
const (
	kindSession = "x.exec.session" // format of the agent's Session
	kindWarning = "x.exec.warning"
)

// entryFormatter formats entries as single lines for a person who waits for a reply. It remembers
// the names of tools and tickets.
type entryFormatter struct {
	names map[string]string // names of tools and questions by call or ticket
}

// format returns a line for an entry, or "" if the entry is not shown.
func (t entryFormatter) format(e mailroom.Entry) (string, error) {
	switch e.Kind {
	case entry.KindStep, entry.KindToolStarted, entry.KindToolDone, entry.KindSend,
		entry.KindEffectSettled, entry.KindEffectUnknown:
		return t.activityLine(e)
	case entry.KindTicketOpened, entry.KindTicketDecided, entry.KindTicketExpired:
		return t.ticketLine(e)
	case kindWarning, kindSession:
		return programLine(e), nil
	case entry.KindTree:
		if made := entry.TreeOf(e); made != nil {
			return "branch " + made.Branch + ", " + made.Summary(), nil
		}
		return "", nil
	case entry.KindSetup:
		if s := entry.SetupOf(e); s != nil {
			return s.Summary(), nil
		}
		return "", nil
	case entry.KindNotification, entry.KindReserved, entry.KindReleased, entry.KindLapsed:
		return projectLine(e)
	case entry.KindChannel:
		return channelLine(e)
	}
	return t.runLine(e)
}

// programLine formats a CLI agent's entry. Unreadable entries are skipped.
func programLine(e mailroom.Entry) string {
	if e.Kind == kindWarning {
		var b struct{ Text string }
		if e.Decode(&b) != nil || b.Text == "" {
			return ""
		}
		return "warning: " + b.Text
	}
	var b struct {
		Program, Lost, Why string
		Messages           int
	}
	if e.Decode(&b) != nil || b.Lost == "" {
		return ""
	}
	return fmt.Sprintf("%s started a new session with %d messages of this thread: %s", b.Program, b.Messages, b.Why)
}

// projectLine formats an entry of a project.
func projectLine(e mailroom.Entry) (string, error) {
	switch e.Kind {
	case entry.KindNotification:
		var b project.Notification
		err := e.Decode(&b)
		to := "all"
		if len(b.To) > 0 {
			to = strings.Join(b.To, ", ")
		}
		return fmt.Sprintf("%s notified %s: %s %s", b.From, to, b.Event, formatJSON(b.Data)), err
	case entry.KindReserved:
		var b api.Reservation
		err := e.Decode(&b)
		return fmt.Sprintf("%s reserved %s until %s (fence %d)", b.Holder, b.Name, b.ExpiresAt.UTC().Format(time.RFC3339),
			b.Fence), err
	}
	var b struct{ Name, Holder, By string }
	err := e.Decode(&b)
	if e.Kind == entry.KindLapsed {
		return fmt.Sprintf("reservation of %s by %s expired", b.Name, b.Holder), err
	}
	return fmt.Sprintf("reservation of %s by %s released by %s", b.Name, b.Holder, b.By), err
}

// channelLine formats a state change of a channel.
func channelLine(e mailroom.Entry) (string, error) {
	var b struct {
		Channel, State, Reason string
		Attempts               int
	}
	err := e.Decode(&b)
	line := fmt.Sprintf("channel %s: %s", b.Channel, b.State)
	if b.Attempts > 0 {
		line += " after " + failedAttempts(b.Attempts)
	}
	if b.Reason != "" {
		line += ": " + b.Reason
	}
	return line, err
}

// formatJSON formats JSON without HTML escapes.
func formatJSON(raw json.RawMessage) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return string(raw)
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return string(raw)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (t entryFormatter) runLine(e mailroom.Entry) (string, error) {
	switch e.Kind {
	case entry.KindRescheduled:
		var b entry.RunRescheduled
		err := e.Decode(&b)
		return rescheduledLine(e, b), err
	case entry.KindStop:
		return fmt.Sprintf("stopping run %s", e.Run), nil
	case entry.KindFailed:
		var b entry.RunFailed
		err := e.Decode(&b)
		return fmt.Sprintf("run %s failed: %s: %s", e.Run, b.Error.Class, b.Error.Message), err
	case entry.KindCancelled:
		var b entry.RunStop
		err := e.Decode(&b)
		return fmt.Sprintf("run %s %s", e.Run, cancelText(b.Reason)), err
	case entry.KindWaiting:
		var b entry.RunWaiting
		err := e.Decode(&b)
		line := "waiting"
		if b.Until != nil {
			line += " until " + b.Until.UTC().Format(time.RFC3339) + " at the latest"
		}
		return line, err
	case entry.KindResumed:
		return fmt.Sprintf("resumed, attempt %d", e.Attempt), nil
	}
	return "", nil
}

// activityLine formats what an agent did: a step, a tool call, a sent message or an effect.
func (t entryFormatter) activityLine(e mailroom.Entry) (string, error) {
	switch e.Kind {
	case entry.KindStep:
		var b entry.StepNamed
		err := e.Decode(&b)
		return "step " + b.Name, err
	case entry.KindToolStarted:
		var b entry.ToolStarted
		_ = e.Decode(&b) // written by an agent; print the readable fields
		t.names[b.Call] = b.Name
		return fmt.Sprintf("tool %s %s", b.Name, formatJSON(b.Arguments)), nil
	case entry.KindToolDone:
		var b entry.ToolDone
		_ = e.Decode(&b) // written by an agent; print the readable fields
		if !b.OK {
			return fmt.Sprintf("tool %s failed: %s", t.name(b.Call), b.Summary), nil
		}
		return fmt.Sprintf("tool %s: %s", t.name(b.Call), b.Summary), nil
	case entry.KindSend:
		var b entry.Sent
		err := e.Decode(&b)
		if b.Answer {
			return fmt.Sprintf("child run %s in thread %s", b.Run, b.Thread), err
		}
		return fmt.Sprintf("message to thread %s, for run %s", b.Thread, b.Run), err
	}
	var b entry.EffectEntry
	err := e.Decode(&b)
	switch {
	case e.Kind == entry.KindEffectUnknown:
		return fmt.Sprintf("effect %s: outcome unknown", b.Name), err
	case b.Error != "":
		return fmt.Sprintf("effect %s failed: %s", b.Name, b.Error), err
	}
	return fmt.Sprintf("effect %s completed", b.Name), err
}

// ticketLine formats a ticket's question or its outcome.
func (t entryFormatter) ticketLine(e mailroom.Entry) (string, error) {
	switch e.Kind {
	case entry.KindTicketOpened:
		var k mailroom.Ticket
		err := e.Decode(&k)
		t.names[k.ID] = k.Name
		switch k.Kind {
		case mailroom.TicketChildren:
			return "", err // the send has its own line
		case mailroom.TicketTimer:
			if k.ExpiresAt == nil {
				return "", err
			}
			return "timer until " + k.ExpiresAt.UTC().Format(time.RFC3339), err
		}
		return fmt.Sprintf("%s %s: %s", k.Kind, k.Name, k.Prompt), err
	case entry.KindTicketExpired:
		var b entry.TicketRef
		err := e.Decode(&b)
		return t.name(b.Ticket) + " expired", err
	}
	var b entry.TicketDecision
	if err := e.Decode(&b); err != nil {
		return "", err
	}
	return t.decisionLine(b), nil
}

func (t entryFormatter) decisionLine(b entry.TicketDecision) string {
	var child struct{ Run, Status, Reply string }
	if json.Unmarshal(b.Answer, &child) == nil && child.Run != "" && b.DecidedBy == "run:"+child.Run {
		return fmt.Sprintf("child run %s %s: %s", child.Run, child.Status, command.Shorten(child.Reply, 120))
	}
	line := fmt.Sprintf("%s: %s by %s", t.name(b.Ticket), verdictText(b.Decision), b.DecidedBy)
	if b.Decision == mailroom.VerdictAnswer {
		line += ": " + command.Shorten(string(b.Answer), 120)
	}
	if b.Reason != "" {
		line += fmt.Sprintf(" (%s)", b.Reason)
	}
	return line
}

func verdictText(v mailroom.Verdict) string {
	switch v {
	case mailroom.VerdictApprove:
		return "approved"
	case mailroom.VerdictDeny:
		return "denied"
	}
	return "answered"
}

// name returns the name of a tool call or a ticket, or its id if the name is unknown.
func (t entryFormatter) name(id string) string {
	if name, ok := t.names[id]; ok {
		return name
	}
	return id
}

func cancelText(reason mailroom.Reason) string {
	if reason == mailroom.ReasonCancelled {
		return "cancelled"
	}
	return "cancelled: " + string(reason)
}

func rescheduledLine(e mailroom.Entry, b entry.RunRescheduled) string {
	line := fmt.Sprintf("run %s: attempt %d ", e.Run, b.Attempt)
	switch b.Reason {
	case entry.RescheduledLost:
		line += "lost its worker"
	case entry.RescheduledReleased:
		line += "was released by its worker"
	case entry.RescheduledGaveWay:
		return line + "was put back: another run comes first"
	default:
		line += "failed"
	}
	if b.Error != nil {
		line += fmt.Sprintf(": %s: %s", b.Error.Class, b.Error.Message)
	}
	line += "; retrying"
	if wait := b.AvailableAt.Sub(e.At); wait > 0 {
		line += fmt.Sprintf(" in %s", wait.Round(10*time.Millisecond))
	}
	return line
}
