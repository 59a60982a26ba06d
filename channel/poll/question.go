package poll

import (
	"fmt"
	"strings"

	"mailroom"
	"mailroom/channel"
	"mailroom/internal/display"
)

// maxShown bounds the prompt, action and arguments of a question, in characters.
const maxShown = 2000

// questionText returns the text of a ticket, or "" if no person decides it.
func (b *Bridge) questionText(d channel.Delivery) string {
	k := d.Ticket
	if k.Kind != mailroom.TicketApproval && k.Kind != mailroom.TicketInput {
		return ""
	}
	lines := []string{fmt.Sprintf("(%s asks) %s", d.Run.Agent,
		display.Text(display.Cut(strings.TrimSpace(k.Prompt), maxShown)))}
	if k.Action != "" {
		arguments := display.Cut(display.JSON(string(k.Arguments)), maxShown)
		lines = append(lines, display.Text(strings.TrimSpace(display.Cut(k.Action, maxShown)+" "+arguments)))
	}
	switch {
	case k.Kind == mailroom.TicketInput && d.Origin.Metadata[labelKind] == kindCanvas:
		lines = append(lines, "Your next message is the answer.")
	case k.Kind == mailroom.TicketInput:
		lines = append(lines, fmt.Sprintf("To answer, on the bridge's machine: %s answer %s TEXT", b.options.Command, k.ID))
	default:
		lines = append(lines, "To allow it, on the bridge's machine: "+b.options.Command+" approve "+k.ID,
			"To refuse it: "+b.options.Command+" deny "+k.ID)
	}
	return strings.Join(lines, "\n")
}
