package ledger

import (
	"context"

	"mailroom"
)

// DropDefinitions drops kept versions of agents. A run that is pinned to one of them, and
// any that is retried with it, fails for good when it starts.
func (l *Ledger) DropDefinitions(ctx context.Context, dropped []mailroom.Definition) error {
	_, err := run(ctx, l, op{name: "forget", rank: rankPlain}, func(b *batch) (struct{}, error) {
		b.changes.DropDefinitions = append(b.changes.DropDefinitions, dropped...)
		return struct{}{}, nil
	})
	return err
}
