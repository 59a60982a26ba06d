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

// reading is one attempt of a run.
type reading struct {
	session mailroom.Session
	at      progress
}

// own does the command of a run that somebody made for it.
func (r *reading) own(ctx context.Context, c Command) error {
	if c.Open || r.at.Done > 0 {
		return nil
	}
	refused, err := r.do(ctx, c, nil)
	switch {
	case err != nil:
		return err
	case refused != nil:
		return permanent(fmt.Errorf("%s: %s", refused.Code, refused.Message))
	}
	return nil
}

// read does one command after the other, each the answer of its own ticket, until
// the message is popped.
func (r *reading) read(ctx context.Context) error {
	ask, err := r.ask(ctx)
	if err != nil {
		return err
	}
	for {
		answered, err := r.session.Wait(ctx, false, named(ask, r.at.Done))
		if err != nil {
			return err
		}
		popped, err := r.take(ctx, answered[0].Answer, named(ask, r.at.Done+1))
		if err != nil || popped {
			return err
		}
	}
}

// take does the command of an answer, and asks the next question.
func (r *reading) take(ctx context.Context, answer json.RawMessage, next mailroom.Ask) (popped bool, err error) {
	added, err := r.session.Steered(ctx)
	if err != nil {
		return false, err
	}
	r.at.Added = r.at.Added || len(added) > 0
	c, err := parse(answer)
	if err == nil && c.Open {
		err = errors.New(howto)
	}
	switch {
	case err != nil: // somebody answered by hand, and is told in the log
		return false, r.note(ctx, Outcome{Call: c.Call, Refused: &Refusal{mailroom.CodeInvalid, err.Error()}}, &next)
	case c.Pop && r.at.Added:
		r.at.Added = false
		return false, r.note(ctx, Outcome{Call: c.Call, Refused: &Refusal{mailroom.CodeConflict, more}}, &next)
	case c.Pop:
		return true, nil
	}
	_, err = r.do(ctx, c, &next)
	return false, err
}

const more = "more was said to it meanwhile: read it again, then pop it"

// ask is the question what to do with the message.
func (r *reading) ask(ctx context.Context) (mailroom.Ask, error) {
	input, err := r.session.Input(ctx)
	if err != nil {
		return mailroom.Ask{}, err
	}
	run := r.session.Run()
	var texts []string
	for _, m := range input {
		for _, p := range m.Parts {
			texts = append(texts, p.Text+p.URI+string(p.Data)) // of which it has one
		}
	}
	raw, err := json.Marshal(Head{
		Activity: run.ID, Kind: KindOf(run.Origin), Sender: run.Origin.Sender, Text: shorten(strings.Join(texts, "\n")),
	})
	return mailroom.Ask{
		Kind: mailroom.TicketEvent, Holds: true, Action: Action, Arguments: raw,
		Prompt: "A message for whoever reads this inbox. To answer by hand: " + howto,
	}, err
}

// named is the question after done commands.
func named(ask mailroom.Ask, done int) mailroom.Ask {
	ask.Name = fmt.Sprintf("read-%d", done+1)
	return ask
}

func shorten(s string) string {
	if len(s) <= shownText {
		return s
	}
	s = s[:shownText]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}

// do does a command that is no pop, and asks the next question in the same
// step. refused: it was not done, and that is noted instead.
func (r *reading) do(ctx context.Context, c Command, next *mailroom.Ask) (refused *Refusal, err error) {
	out := Outcome{Call: c.Call, Did: "say"}
	var sends []mailroom.Send
	if c.Delegate == nil {
		err = r.session.Stream(ctx, c.Say)
	} else {
		out.Did = "delegate"
		sends = []mailroom.Send{{
			Name: fmt.Sprintf("delegate-%d", r.at.Done+1), Thread: c.Delegate.Thread, Agent: c.Delegate.Agent,
			Parts: mailroom.Text(c.Delegate.Task), Answer: mailroom.AnswerWake,
		}}
	}
	if err == nil {
		err = r.note(ctx, out, next, sends...)
	}
	if err == nil || !mayRefuse(mailroom.CodeOf(err)) {
		return nil, err
	}
	e, ok := errors.AsType[*mailroom.Error](err)
	if !ok {
		return nil, err
	}
	out.Refused = &Refusal{e.Code, e.Message}
	return out.Refused, r.note(ctx, out, next)
}

// mayRefuse reports whether a step that failed with code was refused for what
// is in it, and will be again: the reader is told, and the message stays.
func mayRefuse(code mailroom.Code) bool {
	switch code {
	case mailroom.CodeInvalid, mailroom.CodeNotFound, mailroom.CodeForbidden, mailroom.CodeQuotaExceeded, mailroom.CodeConflict, mailroom.CodeTooLarge, mailroom.CodeRateLimited, mailroom.CodeGone, mailroom.CodeBusy:
		return true
	}
	return false
}

// note commits the step that a command is. One that was refused to a run of its
// own is not over: a retry by hand tries it again.
func (r *reading) note(ctx context.Context, out Outcome, next *mailroom.Ask, sends ...mailroom.Send) error {
	body, err := json.Marshal(out)
	if err != nil {
		return err
	}
	after := r.at
	after.Done++
	if next == nil && out.Refused != nil {
		after = r.at
	}
	point, err := json.Marshal(after)
	if err != nil {
		return err
	}
	step := mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: Done, Body: body}}, Checkpoint: point, Sends: sends}
	if next != nil {
		step.Tickets = []mailroom.Ask{*next}
	}
	if err := r.session.Append(ctx, step); err != nil {
		return err
	}
	r.at = after
	return nil
}
