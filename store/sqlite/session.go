package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync/atomic"
)

// session is one connection with its prepared statements. One goroutine at a time uses it, and
// finishes a query before the next call.
//
// It calls the driver directly: the locks, copies and reflection of database/sql cost as much as a
// cheap statement.
type session struct {
	driver  *Driver
	conn    driver.Conn
	stmts   map[string]statement // statements by text
	args    []driver.NamedValue  // arguments of the current statement
	row     []driver.Value       // values of the current row
	columns columns              // columns of the current row
	count   *atomic.Int64        // counts executed statements; nil: not counted
}

// statement is the interface that a driver's statements must have.
type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

func newSession(ctx context.Context, d *Driver, connector driver.Connector) (*session, error) {
	conn, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &session{driver: d, conn: conn, stmts: make(map[string]statement)}, nil
}

// exec runs a statement without result rows.
func (s *session) exec(ctx context.Context, text string, args ...any) (driver.Result, error) {
	stmt, err := s.prepared(text)
	if err != nil {
		return nil, err
	}
	s.countOne()
	named := s.named(args)
	res, err := stmt.ExecContext(ctx, named)
	for i := range named {
		named[i].Value = nil // a long value must not stay in memory
	}
	return res, err
}

// rowFunc gets the columns of a row, and reports whether the next row is wanted.
type rowFunc = func(c *columns) (more bool, err error)

// query calls each with every row until each returns false. The columns are valid during the call.
func (s *session) query(ctx context.Context, text string, args []any, each rowFunc) error {
	stmt, err := s.prepared(text)
	if err != nil {
		return err
	}
	s.countOne()
	return s.rows(ctx, stmt, args, each)
}

func (s *session) countOne() {
	if s.count != nil {
		s.count.Add(1)
	}
}

func (s *session) rows(ctx context.Context, stmt statement, args []any, each rowFunc) (err error) {
	rows, err := stmt.QueryContext(ctx, s.named(args))
	if err != nil {
		return err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	n := len(rows.Columns())
	if n > len(s.row) {
		s.row = make([]driver.Value, n)
	}
	row := s.row[:n]
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		s.columns = columns{row: row}
		if more, err := each(&s.columns); err != nil || s.columns.err != nil || !more {
			return cmp.Or(err, s.columns.err)
		}
	}
}

// value runs a rare statement without keeping it prepared, and returns the first value of its
// result, if any.
func (s *session) value(ctx context.Context, text string) (value driver.Value, err error) {
	stmt, err := s.prepare(text)
	if err != nil {
		return nil, err
	}
	err = s.rows(ctx, stmt, nil, func(c *columns) (bool, error) {
		value = c.next()
		return true, nil
	})
	if e := stmt.Close(); err == nil {
		err = e
	}
	return value, err
}

// named returns args in the driver's form, valid until the next call.
func (s *session) named(args []any) []driver.NamedValue {
	for len(s.args) < len(args) {
		s.args = append(s.args, driver.NamedValue{Ordinal: len(s.args) + 1})
	}
	for i, arg := range args {
		s.args[i].Value = arg
	}
	return s.args[:len(args)]
}

// prepared returns the statement of a text, which it prepares when the text is used for the first time. The number of
// texts is bounded, because variable parts are arguments.
func (s *session) prepared(text string) (statement, error) {
	if stmt, ok := s.stmts[text]; ok {
		return stmt, nil
	}
	stmt, err := s.prepare(text)
	if err == nil {
		s.stmts[text] = stmt
	}
	return stmt, err
}

func (s *session) prepare(text string) (statement, error) {
	prepared, err := s.conn.Prepare(text)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", text, err)
	}
	stmt, ok := prepared.(statement)
	if !ok {
		return nil, fmt.Errorf("prepare %q: %T does not accept a context", text, prepared)
	}
	return stmt, nil
}

func (s *session) close() error {
	var first error
	for _, stmt := range s.stmts {
		if err := stmt.Close(); first == nil {
			first = err
		}
	}
	if err := s.conn.Close(); first == nil {
		first = err
	}
	return first
}

// inLists splits distinct values into the arguments of IN lists of a few fixed lengths, so that
// there are few statements. A list that is not full repeats its last value. (A json_each of one
// argument, or a LIMIT argument, would make SQLite plan the statement at every execution.)
func inLists[T any](values []T) iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		for len(values) > 0 {
			size := 64
			switch {
			case len(values) == 1:
				size = 1
			case len(values) <= 8:
				size = 8
			}
			n := min(size, len(values))
			list := make([]any, size)
			for i := range list {
				list[i] = values[min(i, n-1)]
			}
			if !yield(list) {
				return
			}
			values = values[n:]
		}
	}
}

// in returns the text of an IN list for args.
func in(args []any) string { return "IN (?" + strings.Repeat(", ?", len(args)-1) + ")" }
