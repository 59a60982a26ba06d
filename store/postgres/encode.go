package postgres

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5/pgtype"
)

// typesOf returns the types of arguments. The server infers the type of nil.
func typesOf(args []any) []uint32 {
	types := make([]uint32, len(args))
	for i, arg := range args {
		switch arg.(type) {
		case bool:
			types[i] = pgtype.BoolOID
		case int, int64:
			types[i] = pgtype.Int8OID
		case string, *string:
			types[i] = pgtype.TextOID
		case []byte:
			types[i] = pgtype.ByteaOID
		case []bool:
			types[i] = pgtype.BoolArrayOID
		case []int64:
			types[i] = pgtype.Int8ArrayOID
		case []string:
			types[i] = pgtype.TextArrayOID
		case [][]byte:
			types[i] = pgtype.ByteaArrayOID
		}
	}
	return types
}

// encode encodes arguments in the binary format. The result is valid until the next call. Nil slices
// are NULL.
func (s *session) encode(args []any) ([][]byte, error) {
	b := append(s.buffer[:0], 0) // not nil, which would be NULL
	ends := make([]int, len(args))
	isNull := make([]bool, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case nil:
			isNull[i] = true
		case bool:
			b = appendBool(b, v)
		case int:
			b = binary.BigEndian.AppendUint64(b, uint64(v))
		case int64:
			b = binary.BigEndian.AppendUint64(b, uint64(v))
		case string:
			b = append(b, v...)
		case *string:
			if isNull[i] = v == nil; v != nil {
				b = append(b, *v...)
			}
		case []byte:
			b, isNull[i] = append(b, v...), v == nil
		case []bool:
			b, isNull[i] = appendArray(b, pgtype.BoolOID, v, appendBool), v == nil
		case []int64:
			b, isNull[i] = appendArray(b, pgtype.Int8OID, v, appendInt64), v == nil
		case []string:
			b, isNull[i] = appendArray(b, pgtype.TextOID, v, appendBytes), v == nil
		case [][]byte:
			b, isNull[i] = appendArray(b, pgtype.ByteaOID, v, appendBytes), v == nil
		default:
			return nil, fmt.Errorf("argument %d has the type %T, which has no encoding", i+1, arg)
		}
		ends[i] = len(b)
	}
	if len(b) > math.MaxInt32 {
		return nil, fmt.Errorf("the arguments have %d bytes, want at most %d", len(b), math.MaxInt32)
	}
	s.buffer = b
	values, begin := make([][]byte, len(args)), 1
	for i, end := range ends {
		if !isNull[i] {
			values[i] = b[begin:end:end]
		}
		begin = end
	}
	return values, nil
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendInt64(b []byte, n int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) }

func appendBytes[T string | []byte](b []byte, v T) []byte { return append(b, v...) }

// appendArray appends an array of one dimension, with each element behind its length.
func appendArray[T any](b []byte, typ uint32, list []T, element func([]byte, T) []byte) []byte {
	dimensions := uint32(1)
	if len(list) == 0 {
		dimensions = 0
	}
	b = binary.BigEndian.AppendUint32(b, dimensions)
	b = binary.BigEndian.AppendUint32(b, 0) // no NULLs
	b = binary.BigEndian.AppendUint32(b, typ)
	if len(list) == 0 {
		return b
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(list)))
	b = binary.BigEndian.AppendUint32(b, 1) // lower bound
	for _, v := range list {
		at := len(b)
		b = element(append(b, 0, 0, 0, 0), v)
		binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	}
	return b
}
