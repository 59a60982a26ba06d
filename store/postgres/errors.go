package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

// outcome says what an error means for the transaction.
type outcome int

const (
	failed    outcome = iota // the transaction's own statements failed; no row was written
	conflict                 // the transaction conflicts with another handle; no row was written
	duplicate                // of a unique value, which another handle may have written; nothing is written
	lost                     // the connection; a commit that was sent may have happened
	exhausted                // the server's resources or time
)

// readOnly is read_only_sql_transaction.
const readOnly = "25006"

// isReadOnly reports whether the server accepts no writes any more.
func isReadOnly(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == readOnly
}

// isStale reports whether a prepared statement is no longer valid: a migration changed the type of its result
// (0A000), or something between this handle and the server deallocated it (26000).
func isStale(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "0A000" || pg.Code == "26000")
}

// isUnstorable reports whether the server refused a value that a caller gave: its columns of text have no NUL
// (22021, 22P05), and its indexes no texts of more than 2,704 bytes (54000). Callers are checked before; this
// keeps a value that they miss from being an internal error.
func isUnstorable(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "22021" || pg.Code == "22P05" || pg.Code == "54000")
}

// errTries is the refusal of an Update whose last try ended with err. Nothing was written.
func errTries(err error) *mailroom.Error {
	why := "the database refused the transaction"
	var pg *pgconn.PgError
	switch got := outcomeOf(err); {
	case got == lost:
		why = "the connection to the database was lost"
	case isReadOnly(err):
		why = "the database accepts no writes"
	case isStale(err):
		why = "the database has dropped the prepared statements"
	case errors.As(err, &pg) && pg.Code == "25P03":
		why = "the database ended the transaction, because this server was silent"
	case got == conflict, got == duplicate:
		why = "other servers hold the rows"
	}
	return &mailroom.Error{
		Code: mailroom.CodeUnavailable, Cause: err,
		Message: fmt.Sprintf("%s, in each of %d tries; nothing was written", why, store.MaxTries),
	}
}

// duplicateOf names the unique value that an insert was refused for: its constraint and the values of
// the columns, which PostgreSQL gives in the detail.
func duplicateOf(err error) string {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return ""
	}
	return pg.ConstraintName + " " + pg.Detail
}

// outcomeOf classifies an error by https://www.postgresql.org/docs/15/errcodes-appendix.html.
func outcomeOf(err error) outcome {
	var known *mailroom.Error
	if errors.As(err, &known) {
		return failed
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return lost // an error of the network, or a deadline, after which pgx closes the connection
	}
	switch pg.Code {
	case "55P03", // lock_not_available
		"40P01", "40001", // deadlock_detected, serialization_failure
		"25P03",          // idle_in_transaction_session_timeout ended the transaction before the commit was sent
		readOnly,         // the server is no longer the primary; Update connects again
		"0A000", "26000": // the next try prepares the statement again, see isStale
		return conflict
	case "23505": // unique_violation
		// The rows of meters come and go with what they count. So the row of another handle may be gone again when
		// the next try looks for it, and exist again when that try inserts its own.
		if pg.TableName == "meter" {
			return conflict
		}
		return duplicate
	case "57014": // query_canceled: statement_timeout
		return exhausted
	case "57P01", "57P02", "57P03", "57P05": // admin_shutdown, crash_shutdown, cannot_connect_now
		return lost
	}
	switch {
	case strings.HasPrefix(pg.Code, "08"): // connection exceptions
		return lost
	case strings.HasPrefix(pg.Code, "53"): // insufficient resources, such as a full disk
		return exhausted
	}
	return failed
}

// refusal converts an error of PostgreSQL into an error that the interface of the store promises. doing names the
// work that failed.
func refusal(ctx context.Context, doing string, err error) *mailroom.Error {
	if ctx.Err() != nil {
		return sqlstore.Cancelled(ctx)
	}
	var known *mailroom.Error
	if errors.As(err, &known) {
		return known
	}
	refused := &mailroom.Error{Code: mailroom.CodeInternal, Message: "the store failed to " + doing, Cause: err}
	switch outcomeOf(err) {
	case lost, conflict, exhausted:
		refused.Code = mailroom.CodeUnavailable
	}
	if isUnstorable(err) {
		refused.Code = mailroom.CodeInvalid
		refused.Message = "a text has a NUL, bytes that are not UTF-8, or is too long for an index: correct it"
	}
	return refused
}
