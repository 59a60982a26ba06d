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

// cursorChanges are the changes of a batch to the cursors of one channel, by identity. A project with
// many inboxes is a channel with many cursors, so nothing here looks through all of them for one.
type cursorChanges struct {
	moved   map[string]store.Cursor
	order   []string        // identities, in order of their first move
	dropped map[string]bool // stored cursors
}

func (b *batch) cursorChanges(channel string) *cursorChanges {
	c := b.cursorsOf[channel]
	if c == nil {
		c = &cursorChanges{moved: map[string]store.Cursor{}, dropped: map[string]bool{}}
		b.cursorsOf[channel] = c
		b.cursorOrder = append(b.cursorOrder, channel)
	}
	return c
}

func (b *batch) moveCursor(c store.Cursor) {
	c.MovedAt = b.rows.now
	changes := b.cursorChanges(c.Channel)
	if _, again := changes.moved[c.Identity]; !again {
		changes.order = append(changes.order, c.Identity)
	}
	changes.moved[c.Identity] = c
}

// dropCursors drops the cursors of a channel, as [batch.cursors] returned them.
func (b *batch) dropCursors(channel string, rows []store.Cursor) {
	changes := b.cursorChanges(channel)
	for _, row := range rows {
		changes.dropped[row.Identity] = true
	}
	clear(changes.moved)
	changes.order = nil
	b.changes.DropCursors = append(b.changes.DropCursors, rows...)
}

// collectCursors adds the moved cursors to the changes of the batch.
func (b *batch) collectCursors() {
	for _, channel := range b.cursorOrder {
		c := b.cursorsOf[channel]
		for _, identity := range c.order {
			b.changes.Cursors = append(b.changes.Cursors, c.moved[identity])
		}
	}
}

// cursors returns the cursors of a channel with the changes of this batch.
func (b *batch) cursors(q store.CursorQuery) ([]store.Cursor, error) {
	rows, err := b.rows.tx.Cursors(q)
	changes := b.cursorsOf[q.Channel]
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
