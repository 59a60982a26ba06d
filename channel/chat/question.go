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

// maxShown bounds the prompt and the arguments of a question in a message, in characters. The
// bound is generous, because an approver has to see what is asked.
const maxShown = 8000

// renderTicket returns the text and the buttons of a question.
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
		to = o.caps.BotName + ": " // such a platform does not route commands to a bot either
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

// renderDetails returns a ticket's action and arguments, and the start of its digest.
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
			cut += fmt.Sprintf("\nFull text on the server: `%s tickets`", o.options.Command)
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

// renderEnding describes a run that ended without a reply, after its unfinished text.
func (o *outbound) renderEnding(run *mailroom.Run, partial string) string {
	retry := "To retry, send the message again or run on the server: " + o.options.Command + " run retry " + run.ID
	var why string
	switch {
	case run.Status == mailroom.StatusCompleted:
		why, retry = fmt.Sprintf("(%s ended without a reply.)", run.Agent), ""
	case run.Status == mailroom.StatusCancelled && run.Reason == mailroom.ReasonInterrupted:
		why, retry = fmt.Sprintf("(%s was interrupted by a later message.)", run.Agent), ""
	case run.Status == mailroom.StatusCancelled:
		why = fmt.Sprintf("(%s was stopped.)", run.Agent)
	default:
		why = fmt.Sprintf("(%s failed: %s)", run.Agent, failureText(run.Error))
	}
	var lines []string
	for _, l := range []string{strings.TrimRight(partial, " \t\r\n"), why, retry} {
		if l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "\n")
}

// exitPattern matches the start of a program's error, before the program's own output.
var exitPattern = regexp.MustCompile(`^\S+(?: \S+)? ended with (exit status [0-9]{1,3}|signal: [a-z ]{1,32})(?::|$)`)

// failureText describes an error to a chat: its class, and how a program exited. The error's
// message may quote output with paths and keys of the server. Users with access to the run find
// it there.
func failureText(e *mailroom.RunError) string {
	if e == nil {
		return "unknown error"
	}
	line, _, _ := strings.Cut(e.Message, "\n")
	if m := exitPattern.FindStringSubmatch(line); m != nil {
		return string(e.Class) + ", " + m[1]
	}
	return string(e.Class)
}

// continueDelay is the pause before the next attempt of a long delivery.
const continueDelay = 100 * time.Millisecond
