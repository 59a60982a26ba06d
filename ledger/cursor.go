package ledger

import (
	"context"
	"slices"

	"mailroom"
)

// MoveCursor moves a cursor alone, past what makes no submit.
func (l *Ledger) MoveCursor(ctx context.Context, c mailroom.Cursor) error {
	if err := c.Check(); err != nil {
		return err
	}
	o := op{name: "cursor", rank: rankPlain, size: len(c.Position)}
	_, err := run(ctx, l, o, func(b *batch) (struct{}, error) {
		b.moveCursor(c)
		return struct{}{}, nil
	})
	return err
}

func (b *batch) moveCursor(c mailroom.Cursor) {
	c.MovedAt = b.now
	b.changes.Cursors = slices.DeleteFunc(b.changes.Cursors, func(x mailroom.Cursor) bool {
		return x.Channel == c.Channel && x.Identity == c.Identity
	})
	b.changes.Cursors = append(b.changes.Cursors, c)
}
