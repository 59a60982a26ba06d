package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// stmt is a statement of a conn. As a row it is the current row of its query.
type stmt struct {
	conn   *conn
	handle uintptr // sqlite3_stmt *
	wants  int     // number of parameters
}

// prepare implements [connection].
func (c *conn) prepare(text string) (statement, error) {
	sql, err := libc.CString(text)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, sql)
	out := c.tls.Alloc(2 * pointerSize)
	defer c.tls.Free(2 * pointerSize)
	handle, tail := valueAt[uintptr](out), valueAt[uintptr](out+uintptr(pointerSize))
	rc := sqlite3.Xsqlite3_prepare_v3(c.tls, c.db, sql, -1, sqlite3.SQLITE_PREPARE_PERSISTENT, out,
		out+uintptr(pointerSize))
	if err := c.result(rc); err != nil {
		return nil, err
	}
	s := &stmt{conn: c, handle: *handle}
	if s.handle == 0 || *valueAt[byte](*tail) != 0 {
		return nil, cmp.Or(s.close(), error(&connError{sqlite3.SQLITE_MISUSE, "it is not one statement"}))
	}
	s.wants = int(sqlite3.Xsqlite3_bind_parameter_count(c.tls, s.handle))
	return s, nil
}

func (s *stmt) close() error { return s.conn.result(sqlite3.Xsqlite3_finalize(s.conn.tls, s.handle)) }

// exec implements [statement].
func (s *stmt) exec(ctx context.Context, args []value) (changes, error) {
	interrupter, err := s.start(ctx, args)
	if err != nil {
		return changes{}, err
	}
	defer s.end(interrupter)
	c := s.conn
	for {
		switch rc := sqlite3.Xsqlite3_step(c.tls, s.handle); rc {
		case sqlite3.SQLITE_ROW:
		case sqlite3.SQLITE_DONE:
			return changes{
				rows:    int64(sqlite3.Xsqlite3_changes(c.tls, c.db)),
				lastKey: sqlite3.Xsqlite3_last_insert_rowid(c.tls, c.db),
			}, nil
		default:
			return changes{}, c.ended(ctx, rc)
		}
	}
}

// query implements [statement].
func (s *stmt) query(ctx context.Context, args []value, each func(row) (more bool, err error)) error {
	interrupter, err := s.start(ctx, args)
	if err != nil {
		return err
	}
	defer s.end(interrupter)
	for {
		switch rc := sqlite3.Xsqlite3_step(s.conn.tls, s.handle); rc {
		case sqlite3.SQLITE_ROW:
		case sqlite3.SQLITE_DONE:
			return nil
		default:
			return s.conn.ended(ctx, rc)
		}
		if more, err := each(s); err != nil || !more {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// start binds args and makes ctx interrupt the statement. After the last step, the caller calls end.
func (s *stmt) start(ctx context.Context, args []value) (*interrupter, error) {
	if s.conn.busy {
		return nil, &connError{sqlite3.SQLITE_MISUSE, "a query of the connection has not ended"}
	}
	i, err := s.conn.heed(ctx)
	if err != nil {
		return nil, err
	}
	s.conn.busy = true
	if err := s.bind(args); err != nil {
		s.end(i)
		return nil, err
	}
	return i, nil
}

// end makes the statement ready for the next start.
func (s *stmt) end(i *interrupter) {
	i.end()
	s.conn.busy = false
	sqlite3.Xsqlite3_reset(s.conn.tls, s.handle) // returns the error of the last step again
	if s.conn.room > mostRoom {
		sqlite3.Xsqlite3_clear_bindings(s.conn.tls, s.handle)
		s.conn.dropBuffer()
	}
}

// bind sets all parameters. SQLite refers to the texts and blobs, which are copied into the connection's buffer, until
// the statement is bound again.
func (s *stmt) bind(args []value) error {
	if len(args) != s.wants {
		return &connError{sqlite3.SQLITE_MISUSE, fmt.Sprintf("%d arguments for %d parameters", len(args), s.wants)}
	}
	size := 0
	for i := range args {
		size += len(args[i].text) + len(args[i].blob)
	}
	buffer, err := s.conn.buffer(size)
	if err != nil {
		return err
	}
	tls, used := s.conn.tls, 0
	for i := range args {
		at, arg, rc := int32(i+1), &args[i], int32(0)
		from := s.conn.bound + uintptr(used)
		switch arg.kind {
		case valueInteger:
			rc = sqlite3.Xsqlite3_bind_int64(tls, s.handle, at, arg.number)
		case valueText:
			used += copy(buffer[used:], arg.text)
			const code = sqlite3.SQLITE_UTF8
			rc = sqlite3.Xsqlite3_bind_text64(tls, s.handle, at, from, uint64(len(arg.text)), static, code)
		case valueBlob:
			used += copy(buffer[used:], arg.blob)
			rc = sqlite3.Xsqlite3_bind_blob64(tls, s.handle, at, from, uint64(len(arg.blob)), static)
		default:
			rc = sqlite3.Xsqlite3_bind_null(tls, s.handle, at)
		}
		if rc != sqlite3.SQLITE_OK {
			return s.conn.result(rc)
		}
	}
	return nil
}

// static is SQLITE_STATIC: SQLite neither copies nor frees the memory.
const static = 0

func (s *stmt) columns() int { return int(sqlite3.Xsqlite3_column_count(s.conn.tls, s.handle)) }

func (s *stmt) isNull(i int) bool {
	return sqlite3.Xsqlite3_column_type(s.conn.tls, s.handle, int32(i)) == sqlite3.SQLITE_NULL
}

func (s *stmt) int64(i int) int64 {
	return sqlite3.Xsqlite3_column_int64(s.conn.tls, s.handle, int32(i))
}

func (s *stmt) text(i int) string {
	p := sqlite3.Xsqlite3_column_text(s.conn.tls, s.handle, int32(i))
	return string(s.bytes(p, i))
}

func (s *stmt) blob(i int) []byte {
	return s.bytes(sqlite3.Xsqlite3_column_blob(s.conn.tls, s.handle, int32(i)), i)
}

func (s *stmt) bytes(p uintptr, i int) []byte {
	if p == 0 { // NULL, or no bytes
		return nil
	}
	return bytesAt(p, sqlite3.Xsqlite3_column_bytes(s.conn.tls, s.handle, int32(i)))
}

func (s *stmt) value(i int) driver.Value {
	switch sqlite3.Xsqlite3_column_type(s.conn.tls, s.handle, int32(i)) {
	case sqlite3.SQLITE_INTEGER:
		return s.int64(i)
	case sqlite3.SQLITE_FLOAT:
		return sqlite3.Xsqlite3_column_double(s.conn.tls, s.handle, int32(i))
	case sqlite3.SQLITE_TEXT:
		return s.text(i)
	case sqlite3.SQLITE_BLOB:
		return append([]byte{}, s.blob(i)...)
	}
	return nil
}
