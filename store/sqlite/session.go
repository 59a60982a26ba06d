package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"strings"
)

// session is one connection with its prepared statements. One goroutine at a
// time uses it, and reads the rows of a query to their end before the next call.
type session struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt // by their text
	row   []any                // values of the row being read
	into  []any                // pointers to them, for Scan
}

func newSession(conn *sql.Conn) *session {
	s := &session{conn: conn, stmts: make(map[string]*sql.Stmt), row: make([]any, maxColumns)}
	for i := range s.row {
		s.into = append(s.into, &s.row[i])
	}
	return s
}

// exec runs a statement that returns no rows.
func (s *session) exec(ctx context.Context, text string, args ...any) (sql.Result, error) {
	stmt, err := s.prepared(text)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(ctx, args...)
}

// query calls each with the values of every row (int64, string, []byte or
// nil), valid during the call, until it returns false. columns is their number.
func (s *session) query(ctx context.Context, columns int, text string, args []any, each func(row []any) (bool, error)) (err error) {
	stmt, err := s.prepared(text)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	for rows.Next() {
		if err := rows.Scan(s.into[:columns]...); err != nil {
			return err
		}
		if more, err := each(s.row[:columns]); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// inLists splits values, which must be different, into the arguments of IN lists
// of few lengths, so that there are few statements. One that is not full repeats
// its last value. (A json_each of one argument, or LIMIT with one, would make
// SQLite plan the statement again at every execution.)
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

// in is the text of an IN list for so many arguments.
func in(args []any) string { return "IN (?" + strings.Repeat(", ?", len(args)-1) + ")" }

// prepared returns the statement of a text, prepared at its first use. The
// number of texts is bounded: what varies freely is an argument.
func (s *session) prepared(text string) (*sql.Stmt, error) {
	if stmt, ok := s.stmts[text]; ok {
		return stmt, nil
	}
	stmt, err := s.conn.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", text, err)
	}
	s.stmts[text] = stmt
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
