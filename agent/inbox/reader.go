package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"mailroom"
)

// reader is the state of one attempt of a run.
type reader struct {
	session  mailroom.Session
	progress progress
}

// runCommand executes c, the command in the options of a run that has no message for a reader.
func (r *reader) runCommand(ctx context.Context, c Command) error {
	if c.Open || r.progress.Done > 0 {
		return nil
	}
	refused, err := r.execute(ctx, c, nil)
	switch {
	case err != nil:
		return err
	case refused != nil:
		return permanent(fmt.Errorf("%s: %s", refused.Code, refused.Message))
	}
	return nil
}

// serveMessage executes one command after another, each the answer to its own ticket, until the
// message is popped.
func (r *reader) serveMessage(ctx context.Context) error {
	ask, err := r.messageAsk(ctx)
	if err != nil {
		return err
	}
	for {
		answered, err := r.session.Wait(ctx, false, nthAsk(ask, r.progress.Done))
		if err != nil {
			return err
		}
		popped, err := r.handleAnswer(ctx, answered[0].Answer, nthAsk(ask, r.progress.Done+1))
		if err != nil || popped {
			return err
		}
	}
}

// handleAnswer executes the command in an answer and opens the next ticket.
func (r *reader) handleAnswer(ctx context.Context, answer json.RawMessage, next mailroom.Ask) (popped bool, err error) {
	added, err := r.session.Steered(ctx)
	if err != nil {
		return false, err
	}
	r.progress.Added = r.progress.Added || len(added) > 0
	c, err := parse(answer)
	if err == nil && c.Open {
		err = errors.New(usage)
	}
	switch {
	case err != nil: // an invalid answer by hand; the error goes to the log
		return false, r.commit(ctx, Outcome{Call: c.Call, Refused: &Refusal{mailroom.CodeInvalid, err.Error()}}, &next)
	case c.Pop && r.progress.Added:
		r.progress.Added = false
		return false, r.commit(ctx, Outcome{Call: c.Call, Refused: &Refusal{mailroom.CodeConflict, unreadMessage}}, &next)
	case c.Pop:
		return true, nil
	}
	_, err = r.execute(ctx, c, &next)
	return false, err
}

const unreadMessage = "the message has been extended: read it again, then pop it"

// messageAsk returns the ticket for the message at the head.
func (r *reader) messageAsk(ctx context.Context) (mailroom.Ask, error) {
	input, err := r.session.Input(ctx)
	if err != nil {
		return mailroom.Ask{}, err
	}
	run := r.session.Run()
	var texts []string
	for _, m := range input {
		for _, p := range m.Parts {
			texts = append(texts, p.Text+p.URI+string(p.Data)) // exactly one is set
		}
	}
	raw, err := json.Marshal(Head{
		Activity: run.ID, Kind: KindOf(run.Origin), Sender: run.Origin.Sender, Text: shorten(strings.Join(texts, "\n")),
	})
	return mailroom.Ask{
		Kind: mailroom.TicketEvent, Holds: true, Action: Action, Arguments: raw,
		Prompt: "A message for the reader of this inbox. To answer by hand, " + usage,
	}, err
}

// nthAsk returns ask, with the name of the ticket that follows after done commands were executed.
func nthAsk(ask mailroom.Ask, done int) mailroom.Ask {
	ask.Name = fmt.Sprintf("read-%d", done+1)
	return ask
}

func shorten(s string) string {
	if len(s) <= maxHeadText {
		return s
	}
	s = s[:maxHeadText]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}

// execute executes a say or delegate command and opens the next ticket in the same step. If the server refuses the
// command, it records the refusal instead.
func (r *reader) execute(ctx context.Context, c Command, next *mailroom.Ask) (refused *Refusal, err error) {
	out := Outcome{Call: c.Call, Did: "say"}
	var sends []mailroom.Send
	if c.Delegate == nil {
		err = r.session.Stream(ctx, c.Say)
	} else {
		out.Did = "delegate"
		sends = []mailroom.Send{{
			Name: fmt.Sprintf("delegate-%d", r.progress.Done+1), Thread: c.Delegate.Thread, Agent: c.Delegate.Agent,
			Parts: mailroom.Text(c.Delegate.Task), Answer: mailroom.AnswerWake,
		}}
	}
	if err == nil {
		err = r.commit(ctx, out, next, sends...)
	}
	if err == nil || !isRefusal(mailroom.CodeOf(err)) {
		return nil, err
	}
	e, ok := errors.AsType[*mailroom.Error](err)
	if !ok {
		return nil, err
	}
	out.Refused = &Refusal{e.Code, e.Message}
	return out.Refused, r.commit(ctx, out, next)
}

// isRefusal reports whether an error code means that the content of a step was refused, so that a
// retry would fail too.
func isRefusal(code mailroom.Code) bool {
	switch code {
	case mailroom.CodeInvalid, mailroom.CodeNotFound, mailroom.CodeForbidden, mailroom.CodeQuotaExceeded,
		mailroom.CodeConflict, mailroom.CodeTooLarge, mailroom.CodeRateLimited, mailroom.CodeGone, mailroom.CodeBusy,
		mailroom.CodeUnserved:
		return true
	}
	return false
}

// commit appends the step of a command. In a run that exists only for its command, a refused command does not count
// as done, so that a manual retry of the run executes the command again.
func (r *reader) commit(ctx context.Context, out Outcome, next *mailroom.Ask, sends ...mailroom.Send) error {
	body, err := json.Marshal(out)
	if err != nil {
		return err
	}
	after := r.progress
	after.Done++
	if next == nil && out.Refused != nil {
		after = r.progress
	}
	point, err := json.Marshal(after)
	if err != nil {
		return err
	}
	step := mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: KindOutcome, Body: body}}, Checkpoint: point, Sends: sends}
	if next != nil {
		step.Tickets = []mailroom.Ask{*next}
	}
	if err := r.session.Append(ctx, step); err != nil {
		return err
	}
	r.progress = after
	return nil
}
