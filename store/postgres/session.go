package postgres

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"mailroom"
)

// A transaction takes two round trips: the first one locks rows and reads what belongs to them (load.go),
// the second one writes all rows and commits (write.go). Each is a pipeline: the server executes its
// statements one after the other, without an answer of the client between them. Therefore
//
//   - a statement passes the keys that it has found to later ones in a setting of the transaction, such as
//     mailroom.busy. These begin with the keys, so a batch of idle or known threads reads nothing more;
//   - what belongs to locked rows is read by later statements, because one that waited for a lock sees
//     everything but the locked row as it was before;
//   - a statement whose number of rows is wrong fails by itself, before the server reaches COMMIT.
//
// The client encodes arguments itself, and sends statements while it encodes the next ones. The batches of
// pgx are sent when they are complete, and prepare a new statement in a trip of its own.

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
	conn     *pgx.Conn
	timeout  time.Duration                           // timeout of a trip
	epoch    int64                                   // epoch of the store when the session connected
	warning  *pgconn.Notice                          // the server's last one
	prepared map[string]*pgconn.StatementDescription // prepared statements by text
	names    int                                     // number of names given to statements so far
	buffer   []byte                                  // buffer for the arguments of a statement
}

// send sends the statements and reads their results.
func (s *session) send(ctx context.Context, t trip) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := s.exchange(ctx, t)
	if isStale(err) {
		s.prepared = nil // they are prepared again, under other names
	}
	var pg *pgconn.PgError
	if err != nil && !s.conn.IsClosed() && !errors.As(err, &pg) { // a value that cannot be encoded or decoded
		return &mailroom.Error{Code: mailroom.CodeInternal, Message: "the store read or wrote an invalid value", Cause: err}
	}
	return err
}

// flushBytes is the size of arguments after which statements are sent, so that the server executes
// them while the next ones are encoded.
const flushBytes = 8 << 10

func (s *session) exchange(ctx context.Context, t trip) (err error) {
	p := s.conn.PgConn().StartPipeline(ctx)
	defer func() {
		if e := p.Close(); err == nil {
			err = e
		}
	}()
	binaryFormat := []int16{1} // for all arguments, or all columns
	names := make([]string, len(t))
	size := 0
	for i, one := range t {
		values, err := s.encode(one.args)
		if err != nil {
			return err
		}
		if known := s.prepared[one.text]; known != nil {
			p.SendQueryStatement(known, values, binaryFormat, binaryFormat)
		} else {
			s.names++
			names[i] = "mailroom_" + strconv.Itoa(s.names)
			p.SendPrepare(names[i], one.text, typesOf(one.args))
			p.SendQueryPrepared(names[i], values, binaryFormat, binaryFormat)
		}
		if size += len(s.buffer); size >= flushBytes {
			size = 0
			if err := p.Flush(); err != nil {
				return err
			}
		}
	}
	if err := p.Sync(); err != nil {
		return err
	}
	for i := range t {
		if err := s.read(p, &t[i], names[i]); err != nil {
			return err
		}
	}
	return nil
}

// read reads the result of a statement. name is the name of a new one.
func (s *session) read(p *pgconn.Pipeline, st *statement, name string) error {
	result, err := p.GetResults()
	if description, ok := result.(*pgconn.StatementDescription); ok {
		description.Name = name
		if s.prepared == nil {
			s.prepared = map[string]*pgconn.StatementDescription{}
		}
		s.prepared[st.text] = description
		result, err = p.GetResults()
	}
	if err != nil {
		return err
	}
	rows, ok := result.(*pgconn.ResultReader)
	if !ok {
		return fmt.Errorf("got %T as the result of a statement", result)
	}
	for st.each != nil && rows.NextRow() {
		c := columns{row: rows.Values()}
		if err := st.each(&c); err != nil {
			return err
		}
		if c.err != nil {
			return c.err
		}
	}
	_, err = rows.Close()
	return err
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
	row  [][]byte
	size int // bytes of the texts and bodies read so far
	err  error
}

func (c *columns) next() []byte {
	v := c.row[0]
	c.row = c.row[1:]
	return v
}

func (c *columns) Int64() int64 {
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

func (c *columns) Int() int { return int(c.Int64()) }

func (c *columns) Text() string {
	v := c.next()
	c.size += len(v)
	return string(v)
}

func (c *columns) raw() json.RawMessage {
	if v := c.Text(); v != "" {
		return json.RawMessage(v)
	}
	return nil
}

func (c *columns) Time() time.Time {
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

// keys reads an array of bigint without NULLs.
func (c *columns) keys() (keys []int64) {
	const header, element = 20, 12 // an array without elements has a shorter header
	v := c.next()
	for i := header; i+element <= len(v); i += element {
		keys = append(keys, int64(binary.BigEndian.Uint64(v[i+4:])))
	}
	return keys
}
