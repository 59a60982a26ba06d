package sqlite

import (
	"cmp"
	"database/sql/driver"
	"encoding/json"
	"strconv"
	"time"
)

// micros is a time as a column: NULL for the zero time.
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

// bit is a bool as a column.
func bit(b bool) any {
	if b {
		return int64(1)
	}
	return int64(0)
}

// orNull is a text as a column: NULL when it is empty.
func orNull[T string | []byte | json.RawMessage](s T) any {
	if len(s) == 0 {
		return nil
	}
	return string(s)
}

// columns takes the values of a row one after the other. The tables are STRICT:
// a column holds its declared type or NULL, which reads as zero.
type columns struct {
	row []driver.Value
	err error // of the first JSON column that could not be decoded
}

func (c *columns) next() driver.Value {
	v := c.row[0]
	c.row = c.row[1:]
	return v
}

func (c *columns) int64() int64 {
	v, _ := c.next().(int64)
	return v
}

func (c *columns) int() int   { return int(c.int64()) }
func (c *columns) bool() bool { return c.int64() != 0 }

func (c *columns) text() string {
	v, _ := c.next().(string)
	return v
}

func (c *columns) raw() json.RawMessage {
	if v := c.text(); v != "" {
		return json.RawMessage(v)
	}
	return nil
}

func (c *columns) time() time.Time {
	if v, ok := c.next().(int64); ok {
		return time.UnixMicro(v).UTC()
	}
	return time.Time{}
}

func (c *columns) timeOrNil() *time.Time {
	if t := c.time(); !t.IsZero() {
		return &t
	}
	return nil
}

// json decodes a JSON column into v, which stays as it is when it is NULL.
func (c *columns) json(v any) {
	if text := c.text(); text != "" {
		if err := json.Unmarshal([]byte(text), v); err != nil && c.err == nil {
			c.err = err
		}
	}
}

// state decodes what encodeState made.
func (c *columns) state() map[string]json.RawMessage {
	text := c.text()
	if text == "" {
		return nil
	}
	var texts map[string]string
	if err := json.Unmarshal([]byte(text), &texts); err != nil {
		c.err = cmp.Or(c.err, err)
		return nil
	}
	state := make(map[string]json.RawMessage, len(texts))
	for agent, text := range texts {
		state[agent] = json.RawMessage(text)
	}
	return state
}

// appendText appends s as a JSON string.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(err) // a string always has a JSON form
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendTexts appends list as a JSON array of strings; nil is null.
func appendTexts(b []byte, list []string) []byte {
	if list == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, s)
	}
	return append(b, ']')
}

// appendField appends name, which is its own JSON, and an integer.
func appendField(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), n, 10)
}
