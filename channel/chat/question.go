package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/internal/display"
)

// maxShown is how much of a question's prompt, and of its arguments, is sent, in
// characters. It is more than people like to read, because an approver has to see what is
// asked.
const maxShown = 8000

// renderTicket is what people read of a ticket, and the buttons for it.
func (o *outbound) renderTicket(d channel.Delivery, at Room) (string, []Button) {
	k := d.Ticket
	lines := []string{fmt.Sprintf("%s asks: %s", d.Run.Agent, display.Text(display.Cut(strings.TrimSpace(k.Prompt), maxShown)))}
	if k.Action != "" || hasArguments(k.Arguments) {
		lines = append(lines, o.renderDetails(k))
	}
	if k.ExpiresAt != nil {
		lines = append(lines, "Until "+k.ExpiresAt.UTC().Format("2 January 15:04 MST")+".")
	}
	if k.Kind == mailroom.TicketInput {
		if at.Group {
			return strings.Join(append(lines, fmt.Sprintf("The next message to %s is the answer.", o.caps.BotName)), "\n"), nil
		}
		return strings.Join(append(lines, "Your next message is the answer."), "\n"), nil
	}
	word := ticketWord(k)
	to := ""
	if at.Group && o.caps.CommandPrefix != "" {
		to = o.caps.BotName + ": " // a platform that knows no commands does not know either who they are to
	}
	lines = append(lines, fmt.Sprintf("To allow it: %s%s %s\nTo refuse it: %s%s %s", to, o.caps.commandText(cmdApprove), word, to, o.caps.commandText(cmdDeny), word))
	var buttons []Button
	if o.caps.Buttons {
		buttons = []Button{
			{Label: "Approve", Data: buttonData(mailroom.VerdictApprove, k)},
			{Label: "Deny", Data: buttonData(mailroom.VerdictDeny, k)},
		}
	}
	return strings.Join(lines, "\n"), buttons
}

func hasArguments(arguments json.RawMessage) bool {
	s := strings.TrimSpace(string(arguments))
	return s != "" && s != "null" && s != "{}"
}

// renderDetails is what a ticket is about, and the beginning of its digest.
func (o *outbound) renderDetails(k *mailroom.Ticket) string {
	text := display.Text(display.Cut(strings.TrimSpace(k.Action), maxShown))
	if hasArguments(k.Arguments) {
		shown := string(k.Arguments)
		var b bytes.Buffer
		if !o.caps.SingleLine && json.Indent(&b, k.Arguments, "", "  ") == nil {
			shown = b.String()
		}
		cut := display.Cut(shown, maxShown)
		if cut != shown {
			cut += fmt.Sprintf("\nAll of it is on the server: `%s tickets`", o.options.Command)
		}
		text = strings.TrimSpace(text + "\n" + display.Text(cut))
	}
	if !o.caps.SingleLine {
		mark := "```"
		for strings.Contains(text, mark) {
			mark += "`"
		}
		text = mark + "\n" + text + "\n" + mark
	}
	if k.Kind == mailroom.TicketApproval {
		text += "\nDigest: " + k.Digest[:min(digestPrefix, len(k.Digest))]
	}
	return text
}

// renderEnding is what people read of a run that has ended without a word, after what it
// had said before it broke off.
func (o *outbound) renderEnding(run *mailroom.Run, said string) string {
	again := "To try it again, say it again, or on the server: " + o.options.Command + " run retry " + run.ID
	var why string
	switch {
	case run.Status == mailroom.StatusCompleted:
		why, again = fmt.Sprintf("(%s has ended without a word.)", run.Agent), ""
	case run.Status == mailroom.StatusCancelled && run.Reason == mailroom.ReasonInterrupted:
		why, again = fmt.Sprintf("(%s has stopped for what came after.)", run.Agent), ""
	case run.Status == mailroom.StatusCancelled:
		why = fmt.Sprintf("(%s was stopped.)", run.Agent)
	default:
		why = fmt.Sprintf("(%s has failed: %s)", run.Agent, failureText(run.Error))
	}
	var lines []string
	for _, l := range []string{strings.TrimRight(said, " \t\r\n"), why, again} {
		if l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "\n")
}

// exitPattern is how the error of a program begins, before what the program wrote.
var exitPattern = regexp.MustCompile(`^\S+(?: \S+)? ended with (exit status [0-9]{1,3}|signal: [a-z ]{1,32})(?::|$)`)

// failureText is what a chat is told of an error: its class, and how the program
// exited. The message of the error may quote what the program wrote, with paths
// and keys of the server: who may read the run finds it there.
func failureText(e *mailroom.RunError) string {
	if e == nil {
		return "no reason is known"
	}
	line, _, _ := strings.Cut(e.Message, "\n")
	if m := exitPattern.FindStringSubmatch(line); m != nil {
		return string(e.Class) + ", " + m[1]
	}
	return string(e.Class)
}

// continueDelay is when a delivery that has said enough for now goes on.
const continueDelay = 100 * time.Millisecond
