package storetest

import (
	"context"
	"sync"

	"mailroom"
	"mailroom/store"
)

// Killable is the store of a server that is killed before, or with After after, its N-th write to a log. Later writes
// do not reach the store.
type Killable struct {
	store.Store
	N     int
	After bool

	mu    sync.Mutex
	dead  bool // owned by mu
	count int  // owned by mu
}

// errKilled is what a server gets that was killed: it does not know what became of its write.
//
// archtest: a constant.
var errKilled = mailroom.Errorf(mailroom.CodeUnavailable, "killed: %w", store.ErrClosed)

// IsDead reports whether the server was killed.
func (m *Killable) IsDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

// Update implements [store.Store].
func (m *Killable) Update(ctx context.Context, f func(store.Tx) error) error {
	if m.IsDead() {
		return errKilled
	}
	err := m.Store.Update(ctx, func(tx store.Tx) error { return f(countedTx{tx, m}) })
	if err == nil && m.IsDead() {
		return errKilled
	}
	return err
}

// View implements [store.Store].
func (m *Killable) View(ctx context.Context, f func(store.Reader) error) error {
	if m.IsDead() {
		return errKilled
	}
	return m.Store.View(ctx, f)
}

// countedTx counts the writes of a transaction that append entries.
type countedTx struct {
	store.Tx
	m *Killable
}

// Write implements [store.Tx].
func (c countedTx) Write(changes *store.Changes) error {
	if len(changes.Entries) > 0 {
		c.m.mu.Lock()
		c.m.count++
		c.m.dead = c.m.dead || c.m.count == c.m.N
		dead := c.m.dead
		c.m.mu.Unlock()
		if dead && !c.m.After {
			return errKilled
		}
	}
	return c.Tx.Write(changes)
}
