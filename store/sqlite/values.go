package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"time"
)

// micros encodes a time as a column: NULL for the zero time.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func microsOf(t *time.Time) any {
	if t == nil {
		return nil
	}
	return micros(*t)
}

// bit encodes a bool as a column.
func bit(b bool) any {
	if b {
		return int64(1)
	}
	return int64(0)
}

// orNull encodes a text as a column: NULL if it is empty.
func orNull[T string | []byte | json.RawMessage](s T) any {
	if len(s) == 0 {
		return nil
	}
	return string(s)
}

// columns reads the values of a row in order. The tables are STRICT: a column holds its declared
// type or NULL, which reads as zero.
type columns struct {
	row  []driver.Value // values of the row that are not read yet
	size int            // size of the texts and bodies read so far
	err  error          // error of the first JSON column that could not be decoded; it ends the query
}

func (c *columns) next() driver.Value {
	v := c.row[0]
	c.row = c.row[1:]
	return v
}

func (c *columns) Int64() int64 {
	v, _ := c.next().(int64)
	return v
}

func (c *columns) Int() int   { return int(c.Int64()) }
func (c *columns) bool() bool { return c.Int64() != 0 }

func (c *columns) Text() string {
	v, _ := c.next().(string)
	c.size += len(v)
	return v
}

func (c *columns) raw() json.RawMessage {
	if v := c.Text(); v != "" {
		return json.RawMessage(v)
	}
	return nil
}

// body returns a copy, because the driver reuses the memory.
func (c *columns) body() string {
	v, _ := c.next().([]byte)
	c.size += len(v)
	return string(v)
}

func (c *columns) Time() time.Time {
	if v, ok := c.next().(int64); ok {
		return time.UnixMicro(v).UTC()
	}
	return time.Time{}
}

func (c *columns) timeOrNil() *time.Time {
	if t := c.Time(); !t.IsZero() {
		return &t
	}
	return nil
}

// json decodes a JSON column into v, and leaves v unchanged for NULL.
func (c *columns) json(v any) {
	if text := c.Text(); text != "" {
		if err := json.Unmarshal([]byte(text), v); err != nil && c.err == nil {
			c.err = err
		}
	}
}
