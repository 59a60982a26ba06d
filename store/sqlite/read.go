package sqlite

import (
	"context"
	"time"
)

// reader answers queries on one connection, in its open transaction.
type reader struct {
	ctx     context.Context
	session *session
	now     time.Time
	sums    *sumCache // nil: the transaction may have written
}

// Now implements [store.Reader].
func (r reader) Now() time.Time { return r.now }

// first returns the first limit elements of list, or all if limit is 0.
func first[T any](list []T, limit int) []T {
	if limit > 0 && len(list) > limit {
		return list[:limit]
	}
	return list
}

// query does what session.query does, and converts errors to those of the store's interface.
func (r reader) query(doing, text string, args []any, each rowFunc) error {
	if err := r.session.query(r.ctx, text, args, each); err != nil {
		refused, _ := r.session.driver.refusal(r.ctx, doing, err)
		return refused
	}
	return nil
}

// lookUp is query for a statement that reads a few rows by their keys. The context is checked before it, and does not
// interrupt it: to make that possible costs about as much as reading a row.
func lookUp(r reader, doing, text string, args []any, each rowFunc) error {
	if err := r.ctx.Err(); err != nil {
		refused, _ := r.session.driver.refusal(r.ctx, doing, err)
		return refused
	}
	if r.ctx.Done() != nil {
		r.ctx = context.WithoutCancel(r.ctx)
	}
	return r.query(doing, text, args, each)
}
