package linear

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"mailroom"
	"mailroom/channel/httpcall"
	"mailroom/issues/board"
)

// commentID derives the id of a comment from its key. Linear takes ids of the client in the format of UUID version 4,
// so a repeat cannot write a second comment.
func commentID(key string) string {
	sum := sha256.Sum256([]byte("mailroom comment " + key))
	id, err := uuid.FromBytes(sum[:16])
	if err != nil {
		return "" // cannot happen: 16 bytes
	}
	const (
		version, variant = 6, 8 // places of the bytes with them
		low, four        = 0x0f, 0x40
		rest, rfc        = 0x3f, 0x80
	)
	id[version] = id[version]&low | four
	id[variant] = id[variant]&rest | rfc
	return id.String()
}

// Comment implements [board.Board].
func (b *client) Comment(ctx context.Context, c board.Comment) error {
	var answer struct {
		Create struct {
			Success bool `json:"success"`
		} `json:"commentCreate"`
	}
	const op = "write a comment"
	err := b.mutate(ctx, op, `mutation($input: CommentCreateInput!) { commentCreate(input: $input) { success } }`,
		map[string]any{"input": map[string]any{"id": commentID(c.Key), "issueId": c.Issue, "body": c.Text}}, &answer)
	if refusal, ok := errors.AsType[*httpcall.Refusal](err); ok && (refusal.Code == codeInvalid ||
		refusal.Code == "user error") { // also if the id is taken, which is no failure
		if found, lookup := b.FindComment(ctx, c); lookup == nil && found {
			return nil
		}
	}
	if err == nil && !answer.Create.Success {
		return unsure(op)
	}
	return err
}

// unsure is the error of a write that Linear neither carried out nor refused, as far as it says.
func unsure(op string) error {
	return fmt.Errorf("%w: %w", mailroom.ErrUnknown,
		httpcall.Unavailable(fmt.Errorf("%s: Linear answered without success", op)))
}

// FindComment implements [board.Board]. The comment is read by its id.
func (b *client) FindComment(ctx context.Context, c board.Comment) (bool, error) {
	var answer struct {
		Comment *reference `json:"comment"`
	}
	err := b.query(ctx, "look up a comment", `query($id: String!) { comment(id: $id) { id } }`,
		map[string]any{"id": commentID(c.Key)}, &answer)
	if refusal, ok := errors.AsType[*httpcall.Refusal](err); ok && refusal.Code == codeNotFound {
		return false, nil
	}
	return err == nil && answer.Comment != nil, err
}

// Mark implements [board.Board]. A claim moves the issue to the lowest started state, and makes the account its
// delegate if that is an app; the assignee stays. A claim that failed leaves the issue there, with its comment. One
// without a result takes it back, unless another person has it.
func (b *client) Mark(ctx context.Context, it board.Issue, m board.Mark) (board.Issue, error) {
	begun := time.Now()
	r, err := b.row(ctx, it.ID)
	if errors.Is(err, board.ErrGone) {
		return it, nil
	}
	if err != nil {
		return it, err
	}
	after, err := b.mark(ctx, r, m)
	refusal, refused := errors.AsType[*httpcall.Refusal](err)
	if refused && refusal.Code == codeInvalid && b.forget(r.Team.ID, begun) {
		after, err = b.mark(ctx, r, m) // the team has other states now
	}
	if err != nil {
		return it, err
	}
	it, ok := b.issue(after)
	if !ok {
		return it, unsure(opUpdate)
	}
	return it, nil
}

const opUpdate = "update the issue"

// mark writes a mark, and returns the issue afterwards.
func (b *client) mark(ctx context.Context, r row, m board.Mark) (after row, err error) {
	input := map[string]any{}
	to, err := b.target(ctx, r, m)
	switch {
	case err != nil:
		return r, err
	case to.ID != "" && to.ID != r.State.ID:
		input["stateId"] = to.ID
	}
	b.mu.Lock()
	me := b.viewer
	b.mu.Unlock()
	mine := r.Delegate != nil && r.Delegate.ID == me.ID
	if m == board.MarkWorking && me.App && r.Delegate == nil {
		input["delegateId"] = me.ID
	} else if m == board.MarkNone && me.App && mine {
		input["delegateId"] = nil
	}
	if len(input) == 0 {
		return r, nil
	}
	var answer struct {
		Update struct {
			Success bool `json:"success"`
			Issue   row  `json:"issue"`
		} `json:"issueUpdate"`
	}
	err = b.mutate(ctx, opUpdate, `mutation($id: String!, $input: IssueUpdateInput!) {
		issueUpdate(id: $id, input: $input) { success issue { `+fields(manyLabels)+` } }
	}`, map[string]any{"id": r.ID, "input": input}, &answer)
	if err == nil && !answer.Update.Success {
		err = unsure(opUpdate)
	}
	return answer.Update.Issue, err
}

// target returns the state that shows a mark, or none if the issue stays where it is.
func (b *client) target(ctx context.Context, r row, m board.Mark) (to state, err error) {
	states, err := b.statesOf(ctx, r.Team.ID)
	if err != nil {
		return to, err
	}
	lowest := func(fits func(state) bool) state {
		for _, s := range states {
			if fits(s) {
				return s
			}
		}
		return state{}
	}
	now := b.stateOf(r)
	switch {
	case m == board.MarkWorking && now != board.StateWorking && now != board.StateClosed,
		m == board.MarkBlocked && now == board.StateOpen:
		to = lowest(func(s state) bool { return s.Type == "started" })
		if to.ID == "" {
			return to, httpcall.Permanent(fmt.Errorf("the team %s has no state of type started", r.Team.Key))
		}
	case m == board.MarkClosed && now != board.StateClosed:
		to = lowest(func(s state) bool { return s.Type == "completed" })
		if to.ID == "" {
			return to, httpcall.Permanent(fmt.Errorf("the team %s has no state of type completed", r.Team.Key))
		}
	case m == board.MarkDone && b.options.Done != "" && now != board.StateClosed:
		to = lowest(func(s state) bool { return strings.EqualFold(s.Name, b.options.Done) })
		if to.ID == "" {
			return to, httpcall.Permanent(fmt.Errorf("the team %s has no state %q", r.Team.Key, b.options.Done))
		}
	case m == board.MarkNone && now == board.StateWorking && b.isOurs(r):
		to = lowest(b.isActive)
	}
	return to, nil
}

// isOurs reports whether an issue has no other delegate or assignee than the account.
func (b *client) isOurs(r row) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, of := range []*reference{r.Delegate, r.Assignee} {
		if of != nil {
			return of.ID == b.viewer.ID
		}
	}
	return true
}
