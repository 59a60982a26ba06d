package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"time"
)

// row gives access to the columns of the current row of a query, numbered from 0. NULL reads as zero.
type row interface {
	columns() int
	isNull(i int) bool
	int64(i int) int64
	text(i int) string
	// blob returns memory that the next row overwrites.
	blob(i int) []byte
	value(i int) driver.Value
}

// columns reads the values of a row in order. The tables are STRICT: a column holds its declared
// type or NULL, which reads as zero.
type columns struct {
	row  row
	at   int   // of the next column
	size int   // size of the texts and bodies read so far
	err  error // error of the first JSON column that could not be decoded; it ends the query
}

// next returns the number of the next column.
func (c *columns) next() int {
	c.at++
	return c.at - 1
}

// all returns all values of the row.
func (c *columns) all() []driver.Value {
	all := make([]driver.Value, c.row.columns())
	for i := range all {
		all[i] = c.row.value(i)
	}
	return all
}

func (c *columns) skip() { c.next() }

func (c *columns) value() driver.Value { return c.row.value(c.next()) }

func (c *columns) Int64() int64 { return c.row.int64(c.next()) }

func (c *columns) Int() int   { return int(c.Int64()) }
func (c *columns) bool() bool { return c.Int64() != 0 }

func (c *columns) Text() string {
	v := c.row.text(c.next())
	c.size += len(v)
	return v
}

func (c *columns) raw() json.RawMessage {
	if v := c.Text(); v != "" {
		return json.RawMessage(v)
	}
	return nil
}

// blob returns memory that the next row overwrites.
func (c *columns) blob() []byte { return c.row.blob(c.next()) }

func (c *columns) body() string {
	v := string(c.blob())
	c.size += len(v)
	return v
}

func (c *columns) Time() time.Time {
	i := c.next()
	if c.row.isNull(i) {
		return time.Time{}
	}
	return time.UnixMicro(c.row.int64(i)).UTC()
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

// values are the columns of a row as database/sql returns them.
type values []driver.Value

func (v values) columns() int             { return len(v) }
func (v values) isNull(i int) bool        { return v[i] == nil }
func (v values) value(i int) driver.Value { return v[i] }

func (v values) int64(i int) int64 {
	n, _ := v[i].(int64)
	return n
}

func (v values) text(i int) string {
	s, _ := v[i].(string)
	return s
}

func (v values) blob(i int) []byte {
	b, _ := v[i].([]byte)
	return b
}
