package ledger

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"mailroom/store"
	"mailroom/thread"
)

// MoveCursor moves a cursor without a submit.
func (l *Ledger) MoveCursor(ctx context.Context, c store.Cursor) error {
	if err := thread.CheckCursor(&c); err != nil {
		return err
	}
	o := op{name: "cursor", rank: rankPlain, size: len(c.Position)}
	return perform(ctx, l, o, func(tx *transaction) error {
		tx.moveCursor(c)
		return nil
	})
}

// ChangeCursor moves a cursor to the position that f returns for the current one, or nil. If f returns nil, the cursor
// stays. Changes of one cursor are serialized. f may be called more than once and must have no side effects.
func (l *Ledger) ChangeCursor(ctx context.Context, channel, identity string,
	f func(at json.RawMessage, now time.Time) (json.RawMessage, error)) error {
	o := op{name: "cursor", rank: rankPlain, topics: []string{"cursor/" + channel + "/" + identity},
		audits: actionOf(ctx) != nil}
	return perform(ctx, l, o, func(tx *transaction) error {
		rows, err := tx.cursors(store.CursorQuery{Channel: channel, Identities: []string{identity}})
		if err != nil {
			return err
		}
		c := store.Cursor{Channel: channel, Identity: identity}
		var at json.RawMessage
		for _, row := range rows {
			if row.Identity == identity {
				at = row.Position
			}
		}
		if c.Position, err = f(at, tx.now()); err != nil || c.Position == nil {
			return err
		}
		if err := thread.CheckCursor(&c); err != nil {
			return err
		}
		tx.moveCursor(c)
		return recordAction(tx, actionOf(ctx))
	})
}

func (tx *transaction) moveCursor(c store.Cursor) {
	c.MovedAt = tx.now()
	changes := tx.changes.cursors.channel(c.Channel)
	if _, again := changes.moved[c.Identity]; !again {
		changes.order = append(changes.order, c.Identity)
	}
	changes.moved[c.Identity] = c
}

// cursors returns the cursors of a channel with the changes of this batch.
func (tx *transaction) cursors(q store.CursorQuery) ([]store.Cursor, error) {
	rows, err := tx.rows.stored.Cursors(q)
	changes := tx.changes.cursors.of[q.Channel]
	if err != nil || changes == nil {
		return rows, err
	}
	rows = slices.DeleteFunc(rows, func(c store.Cursor) bool { return changes.dropped[c.Identity] })
	there := make(map[string]bool, len(rows))
	for i, c := range rows {
		there[c.Identity] = true
		if moved, ok := changes.moved[c.Identity]; ok {
			rows[i] = moved
		}
	}
	asked := q.Identities
	if len(asked) == 0 {
		asked = changes.order
	}
	for _, identity := range asked {
		if moved, ok := changes.moved[identity]; ok && !there[identity] {
			rows = append(rows, moved)
		}
	}
	return rows, nil
}
