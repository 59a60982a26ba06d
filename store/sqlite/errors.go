package sqlite

import (
	"context"
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"mailroom"
)

const primary = 0xff // the part of a result code that says what kind of error it is

func isBusy(err error) bool {
	var failed *sqlite.Error
	if !errors.As(err, &failed) {
		return false
	}
	code := failed.Code() & primary
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED
}

// refusal gives an error of the database its code. broken tells that what the
// file holds is no longer sure: nothing may be written until it is opened again.
func refusal(ctx context.Context, doing string, err error) (refused *mailroom.Error, broken bool) {
	if err == nil {
		return nil, false
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return cancelled(ctx), false
	}
	var known *mailroom.Error
	if errors.As(err, &known) {
		return known, false
	}
	var failed *sqlite.Error
	if !errors.As(err, &failed) {
		return mailroom.Errorf(mailroom.Internal, "%s: %w", doing, err), false
	}
	if isBusy(err) {
		return mailroom.Errorf(mailroom.Unavailable, "%s: the database is busy: %w", doing, err), false
	}
	switch failed.Code() & primary {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL,
		sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOLFS:
		return mailroom.Errorf(mailroom.Unavailable, "%s: %w", doing, err), true
	}
	return mailroom.Errorf(mailroom.Internal, "%s: %w", doing, err), false
}

func cancelled(ctx context.Context) *mailroom.Error {
	return &mailroom.Error{
		Code: mailroom.Unavailable, Message: "the database was not waited for", Cause: context.Cause(ctx),
	}
}

func errClosed() *mailroom.Error {
	return &mailroom.Error{Code: mailroom.Unavailable, Message: "the store is closed"}
}
