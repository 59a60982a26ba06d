package ledger

import (
	"context"

	"mailroom/store"
)

// topicDefinitions serializes the operations on definitions.
const topicDefinitions = "definitions"

// DropDefinitions drops stored versions of agents. A run pinned to such a version, or retried with
// it, fails permanently when it starts.
func (l *Ledger) DropDefinitions(ctx context.Context, dropped []store.Definition) error {
	o := op{name: "drop_definitions", rank: rankPlain, topics: []string{topicDefinitions}}
	return perform(ctx, l, o, func(tx *transaction) error {
		tx.changes.dropDefinitions(dropped)
		return nil
	})
}

// KeepDefinitions stores the current versions of agents, so that runs pinned to them can continue
// after a change.
func (l *Ledger) KeepDefinitions(ctx context.Context, kept []store.Definition) error {
	o := op{name: "define", rank: rankPlain, topics: []string{topicDefinitions}}
	return perform(ctx, l, o, func(tx *transaction) error {
		tx.changes.keepDefinitions(kept)
		return nil
	})
}

// Definitions returns the stored versions of agents.
func (l *Ledger) Definitions(ctx context.Context) (kept []store.Definition, err error) {
	err = l.View(ctx, func(r store.Reader) error {
		rows, err := r.Agents()
		kept = rows.Definitions
		return err
	})
	return kept, err
}
