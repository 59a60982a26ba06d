package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"mailroom"
)

// errandMark is the data part of a message by which the tour agent recognizes that it runs as the child.
const errandMark = `{"tour":"errand"}`

func errandParts(weather string) ([]mailroom.Part, error) {
	text := fmt.Sprintf("Write a verse about %s. It is %s there.", place, weather)
	return append(mailroom.Text(text), mailroom.Part{Type: "data", Data: json.RawMessage(errandMark)}), nil
}

func isErrand(input []mailroom.Message) bool {
	return slices.ContainsFunc(input, func(m mailroom.Message) bool {
		return slices.ContainsFunc(m.Parts, func(p mailroom.Part) bool {
			return p.Type == "data" && string(p.Data) == errandMark
		})
	})
}

// runErrand is the turn of the child run: it writes a verse. The turn appends no step, so a later attempt writes the
// verse again.
func (t *attempt) runErrand(ctx context.Context) error {
	return t.streamText(ctx, "Grey gulls, a slow tide; / the post boat rounds the light / with one letter more.")
}

// errandResult returns the result of the child from its ticket.
func errandResult(k mailroom.Ticket) string {
	var end struct {
		Thread string             `json:"thread"`
		Status mailroom.Status    `json:"status"`
		Reply  *string            `json:"reply"`
		Reason mailroom.Reason    `json:"reason"`
		Error  *mailroom.RunError `json:"error"`
	}
	if err := json.Unmarshal(k.Answer, &end); err != nil {
		return fmt.Sprintf("the answer cannot be decoded (%v)", err)
	}
	switch {
	case end.Status == mailroom.StatusCompleted && end.Reply != nil:
		return *end.Reply
	case end.Error != nil:
		return fmt.Sprintf("it %s (%s)", end.Status, end.Error.Message)
	}
	return fmt.Sprintf("it ended %s without a reply", end.Status)
}
