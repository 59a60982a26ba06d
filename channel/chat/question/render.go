package question

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/channel/chat/command"
	"mailroom/internal/display"
)

// maxShown bounds the prompt and the arguments of a question in a message, in characters. The
// bound is generous, because an approver has to see what is asked.
const maxShown = 8000

// Question is a ticket to ask in a room.
type Question struct {
	Ticket *mailroom.Ticket
	Agent  string // that asks
	Room   chat.Room
	Caps   chat.Capabilities
	// Command is how the operator calls this program.
	Command string
}

// Render returns the text and the buttons of a question.
func (q Question) Render() (string, []chat.Button) {
	k := q.Ticket
	lines := []string{fmt.Sprintf("%s asks: %s", q.Agent, display.Text(display.Cut(strings.TrimSpace(k.Prompt), maxShown)))}
	if k.Action != "" || hasArguments(k.Arguments) {
		lines = append(lines, q.details())
	}
	if k.ExpiresAt != nil {
		lines = append(lines, "Until "+k.ExpiresAt.UTC().Format("2 January 15:04 MST")+".")
	}
	if k.Kind == mailroom.TicketInput {
		if q.Room.Group {
			return strings.Join(append(lines, fmt.Sprintf("The next message to %s is the answer.", q.Caps.BotName)), "\n"), nil
		}
		return strings.Join(append(lines, "Your next message is the answer."), "\n"), nil
	}
	word := Word(k)
	to := ""
	if q.Room.Group && q.Caps.CommandPrefix != "" {
		to = q.Caps.BotName + ": " // such a platform does not route commands to a bot either
	}
	lines = append(lines, fmt.Sprintf("To allow it: %s%s %s\nTo refuse it: %s%s %s", to, command.Text(q.Caps, command.Approve), word, to, command.Text(q.Caps, command.Deny), word))
	var buttons []chat.Button
	if q.Caps.Buttons {
		buttons = []chat.Button{
			{Label: "Approve", Data: ButtonData(mailroom.VerdictApprove, k)},
			{Label: "Deny", Data: ButtonData(mailroom.VerdictDeny, k)},
		}
	}
	return strings.Join(lines, "\n"), buttons
}

func hasArguments(arguments json.RawMessage) bool {
	s := strings.TrimSpace(string(arguments))
	return s != "" && s != "null" && s != "{}"
}

// details returns a ticket's action and arguments, and the start of its digest.
func (q Question) details() string {
	k := q.Ticket
	text := display.Text(display.Cut(strings.TrimSpace(k.Action), maxShown))
	if hasArguments(k.Arguments) {
		shown := string(k.Arguments)
		var b bytes.Buffer
		if !q.Caps.SingleLine && json.Indent(&b, k.Arguments, "", "  ") == nil {
			shown = b.String()
		}
		cut := display.Cut(shown, maxShown)
		if cut != shown {
			cut += fmt.Sprintf("\nFull text on the server: `%s tickets`", q.Command)
		}
		text = strings.TrimSpace(text + "\n" + display.Text(cut))
	}
	if !q.Caps.SingleLine {
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
