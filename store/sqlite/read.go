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
}

// Now implements [store.Reader].
func (r reader) Now() time.Time { return r.now }

// first cuts list at limit; 0 is no limit.
func first[T any](list []T, limit int) []T {
	if limit > 0 && len(list) > limit {
		return list[:limit]
	}
	return list
}

// query is session.query with errors of the store's interface.
func (r reader) query(doing, text string, args []any, each rowFunc) error {
	if err := r.session.query(r.ctx, text, args, each); err != nil {
		refused, _ := r.session.driver.refusal(r.ctx, doing, err)
		return refused
	}
	return nil
}
