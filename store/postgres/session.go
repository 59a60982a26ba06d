package postgres

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"mailroom"
)

// tripTimeout bounds one round trip, so that a handle that is cut off from the database fails soon.
const tripTimeout = 8 * time.Second

// statement is one statement of a trip. each gets its rows; nil ignores them.
type statement struct {
	text string
	args []any
	each func(c *columns) error
}

// trip is a sequence of statements that are sent in one round trip. After an error the server skips
// the rest.
type trip []statement

func (t *trip) add(each func(c *columns) error, text string, args ...any) {
	*t = append(*t, statement{text, args, each})
}

// session is a connection with its prepared statements.
type session struct {
	conn    *pgx.Conn
	timeout time.Duration // of a trip
}

// send sends the statements and reads their results.
func (s *session) send(ctx context.Context, t trip) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := s.exchange(ctx, t)
	var pg *pgconn.PgError
	if err != nil && !s.conn.IsClosed() && !errors.As(err, &pg) { // a value that cannot be encoded or decoded
		return &mailroom.Error{Code: mailroom.CodeInternal, Message: "the store read or wrote an invalid value", Cause: err}
	}
	return err
}

func (s *session) exchange(ctx context.Context, t trip) (err error) {
	var batch pgx.Batch
	for _, one := range t {
		batch.Queue(one.text, one.args...)
	}
	results := s.conn.SendBatch(ctx, &batch)
	defer func() {
		if e := results.Close(); err == nil {
			err = e
		}
	}()
	for i := range t {
		if err := t[i].read(results, s.conn); err != nil {
			return err
		}
	}
	return nil
}

func (st *statement) read(results pgx.BatchResults, conn *pgx.Conn) error {
	if st.each == nil {
		_, err := results.Exec()
		return err
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	c := columns{conn: conn}
	for rows.Next() {
		c.row, c.size = rows.RawValues(), 0
		if err := st.each(&c); err != nil {
			return err
		}
		if c.err != nil {
			return c.err
		}
	}
	return rows.Err()
}

// close closes the connection; an open transaction is rolled back.
func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// The server notices the end of a connection without the message, too.
	_ = s.conn.Close(ctx)
}

// columns reads the values of a row in order, in the binary format. NULL reads as zero.
type columns struct {
	conn *pgx.Conn
	row  [][]byte
	size int // bytes of the texts and bodies read so far
	err  error
}

func (c *columns) next() []byte {
	v := c.row[0]
	c.row = c.row[1:]
	return v
}

func (c *columns) int64() int64 {
	v := c.next()
	switch len(v) {
	case 0:
		return 0
	case 8:
		return int64(binary.BigEndian.Uint64(v))
	}
	c.err = fmt.Errorf("a number has %d bytes, want 8", len(v))
	return 0
}

func (c *columns) int() int { return int(c.int64()) }

func (c *columns) text() string {
	v := c.next()
	c.size += len(v)
	return string(v)
}

func (c *columns) raw() json.RawMessage {
	if v := c.text(); v != "" {
		return json.RawMessage(v)
	}
	return nil
}

func (c *columns) time() time.Time {
	v := c.next()
	if len(v) != 8 {
		return time.Time{}
	}
	return time.UnixMicro(int64(binary.BigEndian.Uint64(v))).UTC()
}

// json decodes a JSON column into v.
func (c *columns) json(v any) {
	b := c.next()
	c.size += len(b)
	if len(b) > 0 {
		if err := json.Unmarshal(b, v); err != nil && c.err == nil {
			c.err = err
		}
	}
}

// keys reads an array of bigint.
func (c *columns) keys() (keys []int64) {
	const bigintArray, binaryFormat = 1016, 1
	if v := c.next(); v != nil && c.err == nil {
		c.err = c.conn.TypeMap().Scan(bigintArray, binaryFormat, v, &keys)
	}
	return keys
}
