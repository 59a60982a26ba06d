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

// movedCursors are the changes of a batch to cursors.
type movedCursors struct {
	of    map[string]*channelCursors // by channel
	order []string                   // channels, in order of their first change
}

// channelCursors are the changes to the cursors of one channel, by identity. A project with many inboxes is a
// channel with many cursors, so nothing here looks through all of them for one.
type channelCursors struct {
	moved   map[string]store.Cursor
	order   []string        // identities, in order of their first move
	dropped map[string]bool // stored cursors
}

func (m *movedCursors) channel(name string) *channelCursors {
	c := m.of[name]
	if c == nil {
		if m.of == nil {
			m.of = map[string]*channelCursors{}
		}
		c = &channelCursors{moved: map[string]store.Cursor{}, dropped: map[string]bool{}}
		m.of[name] = c
		m.order = append(m.order, name)
	}
	return c
}

// drop forgets the moved cursors of a channel and marks its stored ones as dropped.
func (m *movedCursors) drop(channel string, rows []store.Cursor) {
	c := m.channel(channel)
	for _, row := range rows {
		c.dropped[row.Identity] = true
	}
	clear(c.moved)
	c.order = nil
}

// collect returns the moved cursors.
func (m *movedCursors) collect() (rows []store.Cursor) {
	for _, channel := range m.order {
		c := m.of[channel]
		for _, identity := range c.order {
			rows = append(rows, c.moved[identity])
		}
	}
	return rows
}

func (b *batch) moveCursor(c store.Cursor) {
	c.MovedAt = b.rows.now
	changes := b.moved.channel(c.Channel)
	if _, again := changes.moved[c.Identity]; !again {
		changes.order = append(changes.order, c.Identity)
	}
	changes.moved[c.Identity] = c
}

// cursors returns the cursors of a channel with the changes of this batch.
func (b *batch) cursors(q store.CursorQuery) ([]store.Cursor, error) {
	rows, err := b.rows.tx.Cursors(q)
	changes := b.moved.of[q.Channel]
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
