package ledger

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"mailroom/internal/thread"
	"mailroom/store"
)

// MoveCursor moves a cursor without a submit.
func (l *Ledger) MoveCursor(ctx context.Context, c store.Cursor) error {
	if err := thread.CheckCursor(&c); err != nil {
		return err
	}
	o := op{name: "cursor", rank: rankPlain, size: len(c.Position)}
	_, err := run(ctx, l, o, func(b *batch) (struct{}, error) {
		b.moveCursor(c)
		return struct{}{}, nil
	})
	return err
}

// ChangeCursor moves a cursor to the position that f returns for the current one, nil if there is
// none. If f returns nil, the cursor stays. Changes of one cursor are serialized. f may be called
// more than once and must have no side effects.
func (l *Ledger) ChangeCursor(ctx context.Context, channel, identity string, f func(at json.RawMessage, now time.Time) (json.RawMessage, error)) error {
	o := op{name: "cursor", rank: rankPlain, topics: []string{"cursor/" + channel + "/" + identity}}
	_, err := run(ctx, l, o, func(b *batch) (struct{}, error) {
		rows, err := b.cursors(store.CursorQuery{Channel: channel, Identities: []string{identity}})
		if err != nil {
			return struct{}{}, err
		}
		c := store.Cursor{Channel: channel, Identity: identity}
		var at json.RawMessage
		for _, row := range rows {
			if row.Identity == identity {
				at = row.Position
			}
		}
		if c.Position, err = f(at, b.rows.now); err != nil || c.Position == nil {
			return struct{}{}, err
		}
		if err := thread.CheckCursor(&c); err != nil {
			return struct{}{}, err
		}
		b.moveCursor(c)
		return struct{}{}, nil
	})
	return err
}

func (b *batch) moveCursor(c store.Cursor) {
	c.MovedAt = b.rows.now
	b.changes.Cursors = slices.DeleteFunc(b.changes.Cursors, func(x store.Cursor) bool {
		return x.Channel == c.Channel && x.Identity == c.Identity
	})
	b.changes.Cursors = append(b.changes.Cursors, c)
}
