package sqlite

import (
	"context"
	"database/sql/driver"
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

// sizeOf returns the size of the texts and blobs of a row.
func sizeOf(row []driver.Value) (size int) {
	for _, v := range row {
		switch v := v.(type) {
		case []byte:
			size += len(v)
		case string:
			size += len(v)
		}
	}
	return size
}

// first cuts list at limit; 0 is no limit.
func first[T any](list []T, limit int) []T {
	if limit > 0 && len(list) > limit {
		return list[:limit]
	}
	return list
}

// query is session.query with errors of the store's interface.
func (r reader) query(doing, text string, args []any, each func(row []driver.Value) (bool, error)) error {
	if err := r.session.query(r.ctx, text, args, each); err != nil {
		refused, _ := r.session.driver.refusal(r.ctx, doing, err)
		return refused
	}
	return nil
}
