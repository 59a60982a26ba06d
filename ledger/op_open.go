package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/check"
	"mailroom/store"
	"mailroom/thread"
)

// MaxGroup bounds the threads of a group of [Opening].
const MaxGroup = 1000

// Opening is a thread of the operator that a server makes before a message comes for it.
type Opening struct {
	Thread   string // its id begins with Group
	Agent    string
	Metadata json.RawMessage // a JSON object
	// Group is the prefix of the ids of related threads. Admit gets those that exist beside Thread, in any
	// order, and refuses the opening with an error. It may be called more than once. Openings of one group
	// are serialized, so that Admit can bound it. A group has at most [MaxGroup] threads.
	Group string
	Admit func(others []*mailroom.Thread) error
}

// Groups are the operations on groups of threads.
type Groups struct{ ledger *Ledger }

// GroupsOf returns the operations on groups of threads.
func GroupsOf(l *Ledger) Groups { return Groups{l} }

// Open creates a thread, or replaces the agent and the metadata of the one that exists. Admit decides about
// both.
func (gs Groups) Open(ctx context.Context, in Opening) (*mailroom.Thread, error) {
	id, err := check.ThreadID(in.Thread)
	if err != nil {
		return nil, err
	}
	if in.Group == "" || !strings.HasPrefix(id, in.Group) {
		return nil, check.Invalid("thread", fmt.Sprintf("does not begin with %q", in.Group), id)
	}
	o := op{name: "open", rank: rankPlain, size: len(in.Metadata), threads: []string{id},
		topics: []string{"group/" + in.Group}, audits: actionOf(ctx) != nil}
	return run(ctx, gs.ledger, o, func(tx *transaction) (*mailroom.Thread, error) {
		t := tx.rows.thread(id)
		if err := checkNotDeleted(t, &thread.Submit{}); err != nil {
			return nil, err
		}
		if t.Exists() && t.Owner != auth.Operator {
			return nil, mailroom.Errorf(mailroom.CodeConflict, "thread %q belongs to another owner", id)
		}
		others, err := tx.rows.group(in.Group, id)
		if err != nil {
			return nil, err
		}
		if len(others) >= MaxGroup && !t.Exists() {
			return nil, mailroom.Errorf(mailroom.CodeConflict, "there are %d threads of this kind already", len(others))
		}
		if err := in.Admit(others); err != nil {
			return nil, err
		}
		patch := thread.Patch{Agent: &in.Agent, Metadata: in.Metadata}
		if err := patch.Check(); err != nil {
			return nil, err
		}
		t.Open(in.Agent, auth.Operator, tx.now())
		if err := t.Patch(patch, tx.now()); err != nil {
			return nil, abortBatch{err} // the thread is opened already: a bug
		}
		row := t.Thread
		return &row, recordAction(tx, actionOf(ctx))
	})
}

// group returns the threads of a group without one, with the changes of this batch.
func (r *rows) group(prefix, without string) (others []*mailroom.Thread, err error) {
	rows, err := r.stored.Threads(store.ThreadQuery{Prefix: prefix, Limit: MaxGroup + 1})
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if r.threads[row.ID] == nil && row.ID != without {
			others = append(others, row)
		}
	}
	for _, t := range r.order {
		if t.ID != without && strings.HasPrefix(t.ID, prefix) && t.Exists() && t.DeletedAt.IsZero() {
			others = append(others, &t.Thread)
		}
	}
	return others, nil
}
