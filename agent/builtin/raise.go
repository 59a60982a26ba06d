package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mailroom"
	"mailroom/internal/budget"
)

// NewRaise returns the agent that warns about budgets of days and months, and asks whether to raise a spent one. Each
// of its runs is about one [budget.Notice], which the ledger submits with the claim that finds the budget low or spent.
// If it is spent, the agent asks a person. The ledger raises the limit in the transaction of the decision, so the run
// only says what was decided. Without a decision the question expires with the period.
func NewRaise() mailroom.Agent { return mailroom.AgentFunc(runNotice) }

func runNotice(ctx context.Context, s mailroom.Session) error {
	n, err := noticeOf(ctx, s)
	if err != nil {
		return err
	}
	if n.State == budget.Low {
		return warnLow(ctx, s, n)
	}
	reply, err := askRaise(ctx, s, n)
	if err != nil {
		return err
	}
	return s.Stream(ctx, reply)
}

func noticeOf(ctx context.Context, s mailroom.Session) (n *budget.Notice, err error) {
	input, err := s.Input(ctx)
	if err != nil {
		return nil, err
	}
	n = &budget.Notice{}
	for _, m := range input {
		for _, part := range m.Parts {
			if part.Type == "data" {
				err = json.Unmarshal(part.Data, n)
			}
		}
	}
	if err == nil && n.End.IsZero() {
		err = fmt.Errorf("the message is not about a budget: only the server sends messages to this thread")
	}
	if err != nil {
		return nil, &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err}
	}
	return n, nil
}

// warnLow records that a budget is low, once. The entry is what alerts are made of.
func warnLow(ctx context.Context, s mailroom.Session, n *budget.Notice) error {
	if s.Run().Checkpoint == nil {
		body, err := json.Marshal(n)
		if err != nil {
			return err
		}
		err = s.Append(ctx, mailroom.Step{
			Name: "low", Checkpoint: json.RawMessage(`{}`), Entries: []mailroom.AgentEntry{{Kind: budget.KindLow, Body: body}},
		})
		if err != nil {
			return err
		}
	}
	return s.Stream(ctx, n.Warning())
}

// askRaise asks and waits. It returns what to say about the decision.
func askRaise(ctx context.Context, s mailroom.Session, n *budget.Notice) (reply string, err error) {
	arguments, err := json.Marshal(n)
	if err != nil {
		return "", err
	}
	over := fmt.Sprintf("The budget of %s was spent; a new %s has begun.", n.Scope(), n.Period)
	if !time.Now().Before(n.End) {
		return over, nil
	}
	by := fmt.Sprintf("the budget of %s by %s", n.Scope(), n.Raise)
	left := fmt.Sprintf("left the budget of %s as it is.", n.Scope())
	question := mailroom.Ask{Name: "raise", Kind: mailroom.TicketApproval, Prompt: n.Question(), Arguments: arguments}
	if n.Ends() {
		question.Expires = n.End
		by += " until " + n.Again()
		left += " What waits for it goes on at " + n.Again() + "."
	}
	question.Action = "Raise " + by
	found, err := s.Wait(ctx, false, question)
	if err != nil {
		return "", err
	}
	switch k := found[0]; k.Decision {
	case mailroom.VerdictApprove:
		return fmt.Sprintf("%s raised %s.", k.DecidedBy, by), nil
	case mailroom.VerdictDeny:
		return k.DecidedBy + " " + left, nil
	}
	return over, nil
}
