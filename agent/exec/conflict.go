package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"mailroom"
	"mailroom/agent/exec/worktree"
)

const (
	// ticketConflict is the name of the ticket about a branch that conflicts.
	ticketConflict = "tree.conflict"
	// sendConflict is the name of the message that asks the agent to resolve it.
	sendConflict = "tree.resolve"
	// maxConflicts is how many files the ticket names.
	maxConflicts = 20
)

// conflict is a branch that conflicts with the branch that its work is for, after one rebase has failed. The owner
// decides whether the agent resolves it.
type conflict struct {
	Branch string   `json:"branch"`
	With   string   `json:"with"`
	Commit string   `json:"commit"`
	Files  []string `json:"files"`
	More   int      `json:"more,omitempty"` // further files
}

func newConflict(branch string, found *worktree.Conflict) *conflict {
	c := &conflict{Branch: branch, With: found.With, Commit: found.Commit, Files: found.Files}
	if len(c.Files) > maxConflicts {
		c.More = len(c.Files) - maxConflicts
		c.Files = c.Files[:maxConflicts]
	}
	for i, name := range c.Files {
		c.Files[i] = strings.ToValidUTF8(name[:min(len(name), maxReason)], "")
	}
	return c
}

// text says with what the branch conflicts, and where.
func (c *conflict) text() string {
	var names []string
	for _, name := range c.Files {
		names = append(names, fmt.Sprintf("%q", name))
	}
	text := "it conflicts with " + c.With + " in " + strings.Join(names, ", ")
	if c.More > 0 {
		text += fmt.Sprintf(" and %d more", c.More)
	}
	return text
}

// ask returns the ticket. It is the same for all attempts of the run.
func (c *conflict) ask() (mailroom.Ask, error) {
	arguments, err := json.Marshal(c)
	return mailroom.Ask{
		Name: ticketConflict, Kind: mailroom.TicketApproval, Action: "resolve the conflict", Arguments: arguments,
		Prompt: fmt.Sprintf("The branch %s is not pushed: %s, also after a rebase. Approve to let the agent resolve it: "+
			"it gets a message in this thread. Deny to push the branch with its conflict.", c.Branch, c.text()),
	}, err
}

// request is the message by which the agent resolves the conflict.
func (c *conflict) request() string {
	return fmt.Sprintf("The branch %s of this worktree cannot become a part of %s: %s. The newest commit there is %s, "+
		"which the repository has. Merge it (git merge %s), resolve the conflicts so that both sides keep their purpose, "+
		"test the result, and commit it.", c.Branch, c.With, c.text(), c.Commit, c.Commit)
}

// askConflict commits the result of an attempt, and parks the run until the owner has decided about the conflict of its
// branch. The command is not run again.
func askConflict(ctx context.Context, s mailroom.Session, c *conflict, e ending, more mailroom.Step) error {
	ask, err := c.ask()
	if err != nil {
		return err
	}
	st, err := newStep(KindExited, e.exited(), &checkpoint{Conflict: c})
	if err != nil {
		return err
	}
	more.Entries, more.Checkpoint = append(more.Entries, st.Entries...), st.Checkpoint
	if err := finalWrite(ctx, func(ctx context.Context) error { return s.Append(ctx, more) }); err != nil {
		return contextCause(ctx, err)
	}
	if _, err := s.Wait(ctx, false, ask); err != nil {
		return contextCause(ctx, err)
	}
	return &mailroom.Failure{Class: mailroom.ClassTransient, Err: errors.New("the conflict is already decided")}
}

// settleConflict does what the owner has decided about a conflict, and ends the run.
func (a *agent) settleConflict(ctx context.Context, s mailroom.Session, c *conflict) (err error) {
	ask, err := c.ask()
	if err != nil {
		return err
	}
	tickets, err := s.Wait(ctx, false, ask)
	if err != nil {
		return contextCause(ctx, err)
	}
	run := s.Run()
	st := mailroom.Step{}
	if len(tickets) == 1 && tickets[0].State == mailroom.TicketDecided &&
		tickets[0].Decision == mailroom.VerdictApprove {
		st.Sends = []mailroom.Send{{Name: sendConflict, Thread: run.Thread, Agent: run.Agent,
			Parts: mailroom.Text(c.request()), Options: run.Options}}
	} else {
		place, err := a.enter(ctx, s)
		if err != nil {
			return err
		}
		defer func() { place.leave(&err) }()
		if place.tree != nil { // the configuration may have changed
			if st, err = place.report(ctx, run, "", ""); err != nil {
				return contextCause(ctx, err)
			}
		}
	}
	if st.Checkpoint, err = encode("checkpoint", &checkpoint{Done: true}); err != nil {
		return err
	}
	err = s.Append(ctx, st)
	if err != nil && len(st.Entries) > 0 && refuses(err) { // without the order of a pull request, as in appendFinal
		st.Sends = nil
		err = s.Append(ctx, st)
	}
	if err != nil {
		return contextCause(ctx, err)
	}
	return nil
}
