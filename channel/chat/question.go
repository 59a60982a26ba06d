package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/channel/markdown"
	"mailroom/internal/digest"
	"mailroom/internal/display"
	"mailroom/thread"
)

// TicketWord returns the short name of a ticket in a chat. It depends on the ticket and on its
// digest, so it names exactly what was asked.
func TicketWord(k *mailroom.Ticket) string {
	return digest.ID("word", k.ID, k.Digest)[:8]
}

// digestPrefix is the number of digest characters in a decision.
const digestPrefix = 16

// buttonData returns the payload of a verdict's button, at most 64 bytes.
func buttonData(v mailroom.Verdict, k *mailroom.Ticket) string {
	return string(v) + " " + strings.ReplaceAll(k.ID, "-", "") + " " + k.Digest[:min(digestPrefix, len(k.Digest))]
}

// ParseButton parses the payload of a button. Digest is the one shown with it.
func ParseButton(data string) (d thread.Decision, ok bool) {
	words := strings.Split(data, " ")
	if len(words) != 3 || len(words[1]) != 32 || len(words[2]) != digestPrefix {
		return d, false
	}
	v, id := mailroom.Verdict(words[0]), words[1]
	if v != mailroom.VerdictApprove && v != mailroom.VerdictDeny {
		return d, false
	}
	id = strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-")
	return thread.Decision{Ticket: id, Verdict: v, Digest: words[2]}, true
}

// ChooseTicket returns the ticket that a command means, among shown, the tickets that are shown in the room, the
// newest first. If it finds none, answer says why.
func ChooseTicket(
	shown []*mailroom.Ticket, v mailroom.Verdict, rest string, on Capabilities,
) (k *mailroom.Ticket, reason, answer string) {
	first, after, _ := strings.Cut(rest, " ")
	for _, k := range shown {
		if strings.EqualFold(first, TicketWord(k)) {
			return k, strings.TrimSpace(after), ""
		}
	}
	if v == mailroom.VerdictApprove && rest != "" || isTicketWord(first) {
		return nil, "", fmt.Sprintf("No question named %s in this chat. Nothing was decided.", display.Name(first))
	}
	open := slices.DeleteFunc(slices.Clone(shown), func(k *mailroom.Ticket) bool { return k.State != mailroom.TicketOpen })
	switch len(open) {
	case 0:
		return nil, "", "No question in this chat waits for a decision."
	case 1:
		return open[0], rest, ""
	}
	lines := []string{"Which one? Nothing was decided yet."}
	for _, k := range open {
		lines = append(lines, fmt.Sprintf("%s %s – %s", CommandText(on, string(v)), TicketWord(k), TicketSummary(k)))
	}
	return nil, "", strings.Join(lines, "\n")
}

// isTicketWord reports whether a word has the form of a ticket word.
func isTicketWord(s string) bool {
	return len(s) == len("01234567") && strings.Trim(strings.ToLower(s), "0123456789abcdef") == ""
}

// maxTicketSummary bounds a ticket's summary, in characters.
const maxTicketSummary = 200

// TicketSummary returns a ticket's question in one line.
func TicketSummary(k *mailroom.Ticket) string {
	return display.Cut(display.Line(strings.Join(strings.Fields(k.Prompt+" "+k.Action), " ")), maxTicketSummary)
}

// TicketOutcome describes the decision of a ticket, from its row alone.
func TicketOutcome(k *mailroom.Ticket, who func(by string) string) string {
	switch k.State {
	case mailroom.TicketDecided:
		word := map[mailroom.Verdict]string{mailroom.VerdictApprove: "Approved", mailroom.VerdictDeny: "Denied",
			mailroom.VerdictAnswer: "Answered"}[k.Decision]
		words := word + " by " + display.Line(who(k.DecidedBy)) + ": " + TicketSummary(k)
		if k.Reason != "" {
			words += "\nReason: " + display.Line(display.Cut(k.Reason, maxQuestionText))
		}
		return words
	case mailroom.TicketExpired:
		at := ""
		if k.ExpiresAt != nil {
			at = " at " + k.ExpiresAt.UTC().Format(time.DateTime+" MST")
		}
		return "Too late: it expired" + at + ", which counts as denied. Nothing was allowed: " + TicketSummary(k)
	case mailroom.TicketVoid:
		return "Too late: the run that asked has ended. Nothing was allowed: " + TicketSummary(k)
	}
	return "Not decided, still open: " + TicketSummary(k)
}

// maxQuestionText bounds the prompt and the arguments of a question in a message, in characters. The
// bound is generous, because an approver has to see what is asked.
const maxQuestionText = 8000

// Question is a ticket to ask in a room.
type Question struct {
	Ticket *mailroom.Ticket
	Agent  string // name of the agent that asks
	Room   Room
	Caps   Capabilities
	// Command is how the operator calls this program.
	Command string
}

// Render returns the text and the buttons of a question.
func (q Question) Render() (string, []Button) {
	k := q.Ticket
	prompt := display.Text(display.Cut(strings.TrimSpace(k.Prompt), maxQuestionText))
	lines := []string{fmt.Sprintf("%s asks: %s", q.Agent, prompt)}
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
	word := TicketWord(k)
	to := ""
	if q.Room.Group && q.Caps.CommandPrefix != "" {
		to = q.Caps.BotName + ": " // a platform with a prefix of its own does not route commands to a bot
	}
	approve, deny := CommandText(q.Caps, CommandApprove), CommandText(q.Caps, CommandDeny)
	lines = append(lines, fmt.Sprintf("To allow it: %s%s %s\nTo refuse it: %s%s %s", to, approve, word, to, deny, word))
	var buttons []Button
	if q.Caps.Buttons {
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

// details returns a ticket's action and arguments, and the start of its digest.
func (q Question) details() string {
	k := q.Ticket
	text := display.Text(display.Cut(strings.TrimSpace(k.Action), maxQuestionText))
	if hasArguments(k.Arguments) {
		shown := string(k.Arguments)
		var b bytes.Buffer
		if !q.Caps.SingleLine && json.Indent(&b, k.Arguments, "", "  ") == nil {
			shown = b.String()
		}
		shown = display.JSON(shown)
		cut := display.Cut(shown, maxQuestionText)
		if cut != shown {
			cut += fmt.Sprintf("\nFull text on the server: `%s tickets`", q.Command)
		}
		text = strings.TrimSpace(text + "\n" + display.Text(cut))
	}
	if !q.Caps.SingleLine {
		text = markdown.Fence(text)
	}
	if k.Kind == mailroom.TicketApproval {
		text += "\nDigest: " + k.Digest[:min(digestPrefix, len(k.Digest))]
	}
	return text
}
