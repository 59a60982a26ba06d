package sqlite

import (
	"context"
	"errors"
	"fmt"

	sqlite3 "modernc.org/sqlite/lib"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

const primary = 0xff // the part of a result code that names the kind of error

// kind returns the primary result code of an error, 0 if it is not SQLite's.
func (d *Driver) kind(err error) int {
	if err == nil {
		return 0
	}
	code, _ := d.Code(err)
	return code & primary
}

func (d *Driver) isBusy(err error) bool {
	kind := d.kind(err)
	return kind == sqlite3.SQLITE_BUSY || kind == sqlite3.SQLITE_LOCKED
}

// refusal converts a database error into one of the store's interface. broken means that the state
// of the file is uncertain: nothing may be written until it is reopened.
func (d *Driver) refusal(ctx context.Context, doing string, err error) (refused *mailroom.Error, broken bool) {
	if err == nil {
		return nil, false
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return sqlstore.Cancelled(ctx), false
	}
	var known *mailroom.Error
	if errors.As(err, &known) {
		return known, false
	}
	refused = &mailroom.Error{Code: mailroom.CodeInternal, Message: "the store failed to " + doing, Cause: err}
	switch {
	case d.isBusy(err):
		refused.Code = mailroom.CodeUnavailable
	case breaks(d.kind(err)):
		refused.Code, broken = mailroom.CodeUnavailable, true
		refused.Cause = fmt.Errorf("%w: %w", store.ErrClosed, err)
	}
	return refused, broken
}

// breaks reports whether a code means an error of the disk or file, not of a statement.
func breaks(code int) bool {
	switch code {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL,
		sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOLFS:
		return true
	}
	return false
}
