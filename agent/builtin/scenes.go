package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"mailroom"
)

const (
	place        = "the harbour"
	weather      = "grey, with a slow tide"
	receipt      = "postcard no. 1"
	approvalName = "postcard" // name of the ticket
)

func (t *attempt) greet(ctx context.Context) error {
	err := t.streamText(ctx, "Hello, I am the tour. I need no model and no key; I show what a run can do.\n\n"+
		"What you just read is a durable step. If this server is killed now, I go on after it.")
	if err != nil {
		return err
	}
	return t.endScene(ctx, mailroom.Step{Name: "greet"})
}

// lookUpWeather calls an idempotent tool.
func (t *attempt) lookUpWeather(ctx context.Context) error {
	if err := t.streamText(ctx,
		"Now I call a tool. Its result is stored: a later attempt reuses it without a call."); err != nil {
		return err
	}
	args, err := json.Marshal(map[string]string{"place": place})
	if err != nil {
		return err
	}
	call := tool{id: "look-1", name: "look_up_weather", arguments: args, idempotent: true}
	value, err := t.callTool(ctx, call, func(ctx context.Context, _ string) (json.RawMessage, error) {
		if err := t.pause(ctx, 20); err != nil {
			return nil, err
		}
		return json.Marshal(weather)
	})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(value, &t.progress.Weather); err != nil {
		return fmt.Errorf("read the weather: %w", err)
	}
	return t.endScene(ctx, mailroom.Step{Name: "look",
		Entries: []mailroom.AgentEntry{toolFinished(call, true, t.progress.Weather)}})
}

// askApproval sends the errand and opens the approval in one transaction.
func (t *attempt) askApproval(ctx context.Context) error {
	err := t.streamText(ctx,
		"I delegate an errand to another run in its own thread, and ask for your approval to send a postcard.\n\n"+
			"While I wait for both, I use no process or lease: kill the server, and answer next week.")
	if err != nil {
		return err
	}
	step, err := t.openTickets()
	if err != nil {
		return err
	}
	step.Name = "ask"
	return t.endScene(ctx, step)
}

// openTickets returns the step that opens the tickets of the approval and of the errand. The name of the send
// contains the attempt, because a retried run must be able to send a second errand.
func (t *attempt) openTickets() (mailroom.Step, error) {
	r := t.session.Run()
	t.progress.Helper = fmt.Sprintf("helper-%d", r.Attempt)
	errand, err := errandParts(t.progress.Weather)
	if err != nil {
		return mailroom.Step{}, err
	}
	asked, err := t.approval()
	return mailroom.Step{
		Tickets: []mailroom.Ask{asked},
		Sends:   []mailroom.Send{{Name: t.progress.Helper, Agent: r.Agent, Parts: errand, Answer: mailroom.AnswerWait}},
	}, err
}

// approval returns the question whether the postcard may be sent.
func (t *attempt) approval() (mailroom.Ask, error) {
	args, err := t.postcardArguments()
	return mailroom.Ask{
		Name: approvalName, Kind: mailroom.TicketApproval, After: approvalTimeout,
		Prompt: "May I send this postcard?", Action: "send_postcard", Arguments: args,
	}, err
}

func (t *attempt) postcardArguments() (json.RawMessage, error) {
	return json.Marshal(map[string]string{"to": "a friend", "text": "At " + place + " it is " + t.progress.Weather + "."})
}

// act waits for both tickets and then sends the postcard if it was approved.
func (t *attempt) act(ctx context.Context) error {
	tickets, err := t.wait(ctx)
	if err != nil {
		return err
	}
	t.progress.Verse = errandResult(tickets[1])
	step := mailroom.Step{Name: "act"}
	asked := tickets[0]
	switch {
	case asked.State == mailroom.TicketExpired:
		t.progress.Postcard = "the approval expired, so it was not sent"
	case asked.Decision != mailroom.VerdictApprove:
		t.progress.Postcard = fmt.Sprintf("%s said no%s: it was not sent", decider(asked), formatReason(asked.Reason))
	default:
		if step.Entries, err = t.send(ctx, asked); err != nil {
			return err
		}
	}
	return t.endScene(ctx, step)
}

// wait returns the tickets of the approval and of the errand. If the run was cancelled while it waited and is
// retried, wait opens both tickets again.
func (t *attempt) wait(ctx context.Context) ([]mailroom.Ticket, error) {
	asked, err := t.approval()
	if err != nil {
		return nil, err
	}
	tickets, err := t.session.Wait(ctx, false, asked, mailroom.Ask{Name: t.progress.Helper})
	if mailroom.CodeOf(err) != mailroom.CodeInvalid {
		return tickets, err
	}
	step, err := t.openTickets()
	if err != nil {
		return nil, err
	}
	step.Name = "ask again"
	if err := t.save(ctx, step, t.progress); err != nil {
		return nil, err
	}
	return t.session.Wait(ctx, false, asked, mailroom.Ask{Name: t.progress.Helper})
}

// send sends the postcard. If a crash leaves the outcome unknown, a person decides whether to send it again. A denial
// does not fail the tour.
func (t *attempt) send(ctx context.Context, asked mailroom.Ticket) ([]mailroom.AgentEntry, error) {
	call := tool{id: "send-1", name: "send_postcard", arguments: asked.Arguments}
	value, err := t.callTool(ctx, call, func(context.Context, string) (json.RawMessage, error) {
		return json.Marshal(receipt)
	})
	if f, ok := errors.AsType[*mailroom.Failure](err); ok && f.Class == mailroom.ClassPermanent {
		t.progress.Postcard = "the outcome is unknown, and a repeat was denied"
		return []mailroom.AgentEntry{toolFinished(call, false, t.progress.Postcard)}, nil
	}
	if err != nil {
		return nil, err
	}
	got := strings.Trim(string(value), `"`)
	t.progress.Postcard = fmt.Sprintf("%s allowed it%s, and it was sent once: %s", decider(asked),
		formatReason(asked.Reason), got)
	return []mailroom.AgentEntry{toolFinished(call, true, got)}, nil
}

// summarize reports what happened. The thread state counts the tours of this conversation.
func (t *attempt) summarize(ctx context.Context) error {
	var memory struct {
		Tours int `json:"tours"`
	}
	if s := t.session.State(); s != nil {
		if err := json.Unmarshal(s, &memory); err != nil {
			return fmt.Errorf("read the state of the thread: %w", err)
		}
	}
	memory.Tours++
	state, err := json.Marshal(memory)
	if err != nil {
		return err
	}
	if err := t.streamText(ctx, t.summary(memory.Tours)); err != nil {
		return err
	}
	return t.endScene(ctx, mailroom.Step{Name: "tell", State: state})
}

func (t *attempt) summary(tours int) string {
	lines := []string{
		"What happened:",
		"- the tool said that at " + place + " it is " + t.progress.Weather,
		"- the errand: " + t.progress.Verse,
		"- the postcard: " + t.progress.Postcard,
	}
	if len(t.progress.Steered) > 0 {
		lines = append(lines, fmt.Sprintf("- messages during the tour: %d, the last one %q", len(t.progress.Steered),
			t.progress.Steered[len(t.progress.Steered)-1]))
	}
	lines = append(lines, fmt.Sprintf("- attempts of this run: %d; tours of this thread: %d",
		t.session.Run().Attempt, tours))
	return strings.Join(lines, "\n")
}

func decider(k mailroom.Ticket) string {
	if k.DecidedBy == "" {
		return "an unknown person"
	}
	return k.DecidedBy
}

func formatReason(reason string) string {
	if reason == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", reason)
}
