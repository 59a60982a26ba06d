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

// mostShown is how much of a question's prompt, and of its arguments, is sent, in
// characters. It is more than people like to read, because an approver has to see what is
// asked.
const mostShown = 8000

// question is what people read of a ticket, and the buttons for it.
func (o *outbound) question(d channel.Delivery, at Room) (string, []Button) {
	k := d.Ticket
	lines := []string{fmt.Sprintf("%s asks: %s", d.Run.Agent, display.Text(display.Cut(strings.TrimSpace(k.Prompt), mostShown)))}
	if k.Action != "" || hasArguments(k.Arguments) {
		lines = append(lines, o.exactly(k))
	}
	if k.ExpiresAt != nil {
		lines = append(lines, "Until "+k.ExpiresAt.UTC().Format("2 January 15:04 MST")+".")
	}
	if k.Kind == mailroom.TicketInput {
		if at.Group {
			return strings.Join(append(lines, fmt.Sprintf("The next message to %s is the answer.", o.traits.BotName)), "\n"), nil
		}
		return strings.Join(append(lines, "Your next message is the answer."), "\n"), nil
	}
	word := ticketWord(k)
	to := ""
	if at.Group && o.traits.CommandPrefix != "" {
		to = o.traits.BotName + ": " // a platform that knows no commands does not know either who they are to
	}
	lines = append(lines, fmt.Sprintf("To allow it: %s%s %s\nTo refuse it: %s%s %s", to, o.traits.command(cmdApprove), word, to, o.traits.command(cmdDeny), word))
	var buttons []Button
	if o.traits.Buttons {
		buttons = []Button{
			{Label: "Approve", Data: tapData(mailroom.VerdictApprove, k)},
			{Label: "Deny", Data: tapData(mailroom.VerdictDeny, k)},
		}
	}
	return strings.Join(lines, "\n"), buttons
}

func hasArguments(arguments json.RawMessage) bool {
	s := strings.TrimSpace(string(arguments))
	return s != "" && s != "null" && s != "{}"
}

// exactly is what a ticket is about, and the beginning of its digest.
func (o *outbound) exactly(k *mailroom.Ticket) string {
	text := display.Text(display.Cut(strings.TrimSpace(k.Action), mostShown))
	if hasArguments(k.Arguments) {
		shown := string(k.Arguments)
		var b bytes.Buffer
		if !o.traits.SingleLine && json.Indent(&b, k.Arguments, "", "  ") == nil {
			shown = b.String()
		}
		cut := display.Cut(shown, mostShown)
		if cut != shown {
			cut += fmt.Sprintf("\nAll of it is on the server: `%s tickets`", o.options.Command)
		}
		text = strings.TrimSpace(text + "\n" + display.Text(cut))
	}
	if !o.traits.SingleLine {
		mark := "```"
		for strings.Contains(text, mark) {
			mark += "`"
		}
		text = mark + "\n" + text + "\n" + mark
	}
	if k.Kind == mailroom.TicketApproval {
		text += "\nDigest: " + k.Digest[:min(shownDigest, len(k.Digest))]
	}
	return text
}

// ending is what people read of a run that has ended without a word, after what it
// had said before it broke off.
func (o *outbound) ending(run *mailroom.Run, said string) string {
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
		why = fmt.Sprintf("(%s has failed: %s)", run.Agent, failure(run.Error))
	}
	var lines []string
	for _, l := range []string{strings.TrimRight(said, " \t\r\n"), why, again} {
		if l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "\n")
}

// ended is how the error of a program begins, before what the program wrote.
var ended = regexp.MustCompile(`^\S+(?: \S+)? ended with (exit status [0-9]{1,3}|signal: [a-z ]{1,32})(?::|$)`)

// failure is what a chat is told of an error: its class, and how the program
// exited. The message of the error may quote what the program wrote, with paths
// and keys of the server: who may read the run finds it there.
func failure(e *mailroom.RunError) string {
	if e == nil {
		return "no reason is known"
	}
	line, _, _ := strings.Cut(e.Message, "\n")
	if m := ended.FindStringSubmatch(line); m != nil {
		return string(e.Class) + ", " + m[1]
	}
	return string(e.Class)
}

// soon is when a delivery that has said enough for now goes on.
const soon = 100 * time.Millisecond
