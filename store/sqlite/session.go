package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
)

// connection is a connection to SQLite: a conn, or a driven of another driver.
type connection interface {
	prepare(text string) (statement, error)
	// dataVersion returns a number that changes with each commit of any connection, as the open transaction sees it:
	// SQLITE_FCNTL_DATA_VERSION (https://sqlite.org/c3ref/c_fcntl_begin_atomic_write.html). ok is false if it is unknown.
	dataVersion() (version uint32, ok bool)
	// close closes a connection whose statements are closed.
	close() error
}

// statement is a prepared statement. It keeps no argument after a call.
type statement interface {
	exec(ctx context.Context, args []value) (changes, error)
	// query calls each with every row until each returns false.
	query(ctx context.Context, args []value, each func(row) (more bool, err error)) error
	close() error
}

// changes is what a statement has done.
type changes struct {
	rows    int64 // number of changed rows
	lastKey int64 // key of the last row that the connection has inserted
}

// session is one connection with its prepared statements. One goroutine at a time uses it, and
// finishes a query before the next call.
//
// It does not use database/sql: its locks, copies and reflection cost as much as a cheap statement.
type session struct {
	driver  *Driver
	conn    connection
	stmts   map[string]statement // statements by text
	args    []value              // arguments of the current statement
	columns columns              // columns of the current row
	count   *atomic.Int64        // counts executed statements; nil: not counted
}

func newSession(ctx context.Context, d *Driver, connector driver.Connector) (*session, error) {
	conn, err := open(ctx, connector)
	if err != nil {
		return nil, err
	}
	return &session{driver: d, conn: conn, stmts: make(map[string]statement)}, nil
}

func open(ctx context.Context, connector driver.Connector) (connection, error) {
	if own, ok := connector.(builtInConnector); ok {
		return openConn(own.name)
	}
	conn, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return driven{conn}, nil
}

// exec runs a statement. Its arguments are what valueOf accepts.
func (s *session) exec(ctx context.Context, text string, args ...any) (changes, error) {
	values, err := s.values(args)
	if err != nil {
		return changes{}, err
	}
	defer clear(values) // a long value must not stay in memory
	return s.execWith(ctx, text, values)
}

// execWith runs a statement.
func (s *session) execWith(ctx context.Context, text string, args []value) (changes, error) {
	stmt, err := s.prepared(text)
	if err != nil {
		return changes{}, err
	}
	s.countOne()
	return stmt.exec(ctx, args)
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
	values, err := s.values(args)
	if err != nil {
		return err
	}
	defer clear(values)
	return s.rows(ctx, stmt, values, each)
}

func (s *session) countOne() {
	if s.count != nil {
		s.count.Add(1)
	}
}

func (s *session) rows(ctx context.Context, stmt statement, args []value, each rowFunc) error {
	return stmt.query(ctx, args, func(r row) (bool, error) {
		s.columns = columns{row: r}
		more, err := each(&s.columns)
		return more, cmp.Or(err, s.columns.err)
	})
}

// value runs a rare statement without keeping it prepared, and returns the first value of its
// result, if any.
func (s *session) value(ctx context.Context, text string) (value driver.Value, err error) {
	stmt, err := s.prepare(text)
	if err != nil {
		return nil, err
	}
	err = s.rows(ctx, stmt, nil, func(c *columns) (bool, error) {
		value = c.value()
		return true, nil
	})
	if e := stmt.close(); err == nil {
		err = e
	}
	return value, err
}

// values returns args as values, valid until the next call.
func (s *session) values(args []any) ([]value, error) {
	s.args = s.args[:0]
	for _, arg := range args {
		v, err := valueOf(arg)
		if err != nil {
			return nil, err
		}
		s.args = append(s.args, v)
	}
	return s.args, nil
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
	stmt, err := s.conn.prepare(text)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", text, err)
	}
	return stmt, nil
}

func (s *session) close() error {
	var first error
	for _, stmt := range s.stmts {
		if err := stmt.close(); first == nil {
			first = err
		}
	}
	if err := s.conn.close(); first == nil {
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
