package exec

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"mailroom"
	"mailroom/agent/exec/worktree"
	"mailroom/entry"
)

// ticketSetup is the beginning of the name of the ticket about set-up commands that are not trusted. A digest of the
// question follows: another reason is another question.
const ticketSetup = "tree.setup."

// setUp sets the worktree up, before the first run works in it. If its commands are not trusted, the run waits for the
// owner of the thread, who can let it go on without them. Only the person who owns the machine can make them run.
func (w *workplace) setUp(ctx context.Context, s mailroom.Session) error {
	if w.tree == nil {
		return nil
	}
	_, secrets := w.agent.variables()
	err := worktree.SetUp(ctx, w.tree, worktree.SetupOptions{
		Trust: w.agent.options.Worktrees.Trust, Longest: maxSecretLen(secrets),
		Redact: func(out []byte, max int) string { return redact(out, secrets, max) },
	}, func(r entry.Setup) error { return recordSetup(ctx, s, r) })
	if u, ok := errors.AsType[*worktree.UntrustedError](err); ok {
		return w.askSetup(ctx, s, u)
	}
	if failed, ok := errors.AsType[*worktree.SetupError](err); ok {
		return &mailroom.Failure{Class: mailroom.ClassTransient, Err: failed}
	}
	if err != nil {
		return treeFailure(ctx, err, false)
	}
	return nil
}

// recordSetup writes an entry about the set-up.
func recordSetup(ctx context.Context, s mailroom.Session, body entry.Setup) error {
	st, err := newStep(entry.KindSetup, body, nil)
	if err != nil {
		return err
	}
	st.NoProgress = true
	return s.Append(ctx, st)
}

// askSetup asks whether the run goes on without the set-up.
func (w *workplace) askSetup(ctx context.Context, s mailroom.Session, u *worktree.UntrustedError) error {
	arguments, err := json.Marshal(map[string]string{"file": u.Name, "commit": u.Commit, "digest": u.Digest})
	if err != nil {
		return err
	}
	prompt := fmt.Sprintf("The commands that set up a worktree may not run: %s. Then approve, and they run. "+
		"If you approve without that, the run goes on without them. Deny to end the run.", u.Error())
	sum := sha256.Sum256([]byte(prompt))
	ask := mailroom.Ask{Name: ticketSetup + hex.EncodeToString(sum[:4]), Kind: mailroom.TicketApproval,
		Action: "go on, without the set-up unless it is trusted", Arguments: arguments, Prompt: prompt}
	tickets, err := s.Wait(ctx, false, ask)
	if err != nil {
		return contextCause(ctx, err)
	}
	if len(tickets) != 1 || tickets[0].State != mailroom.TicketDecided ||
		tickets[0].Decision != mailroom.VerdictApprove {
		return &mailroom.Failure{Class: mailroom.ClassPermanent,
			Err: fmt.Errorf("the run was not allowed to go on without the set-up: %w", u)}
	}
	if err := recordSetup(ctx, s, entry.Setup{Skipped: u.Name + " " + u.Why}); err != nil {
		return contextCause(ctx, err)
	}
	return worktree.SkipSetup(w.tree)
}
