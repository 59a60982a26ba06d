package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"time"
)

// value is an argument of a statement. The zero value is NULL. Statements that write many rows take it instead of any,
// because each number and text in an interface is allocated.
type value struct {
	kind   valueKind
	number int64
	text   string
	blob   []byte // the caller does not change it before the statement has ended
}

type valueKind uint8

const (
	valueNull valueKind = iota
	valueInteger
	valueText
	valueBlob
)

func intValue(n int64) value { return value{kind: valueInteger, number: n} }

func textValue(s string) value { return value{kind: valueText, text: s} }

// blobValue returns a blob: NULL for nil.
func blobValue(b []byte) value {
	if b == nil {
		return value{}
	}
	return value{kind: valueBlob, blob: b}
}

// valueOf converts an argument: nil, an int64, string, []byte, bool or value.
func valueOf(arg any) (value, error) {
	switch v := arg.(type) {
	case nil:
		return value{}, nil
	case value:
		return v, nil
	case int64:
		return intValue(v), nil
	case string:
		return textValue(v), nil
	case []byte:
		return blobValue(v), nil
	case bool:
		return bit(v), nil
	}
	return value{}, errors.New("an argument of a type that no column has") // %T would allocate each argument
}

// ofDriver returns the value in the form of database/sql.
func (v value) ofDriver() driver.Value {
	switch v.kind {
	case valueInteger:
		return v.number
	case valueText:
		return v.text
	case valueBlob:
		return v.blob
	}
	return nil
}

// micros encodes a time as a column: NULL for the zero time.
func micros(t time.Time) value {
	if t.IsZero() {
		return value{}
	}
	return intValue(t.UnixMicro())
}

func microsOf(t *time.Time) value {
	if t == nil {
		return value{}
	}
	return micros(*t)
}

// bit encodes a bool as a column.
func bit(b bool) value {
	if b {
		return intValue(1)
	}
	return intValue(0)
}

// orNull encodes a text as a column: NULL if it is empty.
func orNull[T string | []byte | json.RawMessage](s T) value {
	if len(s) == 0 {
		return value{}
	}
	return textValue(string(s))
}
