// Package digest computes digests of values, and ids that are derived from names.
package digest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"mailroom/internal/jsontext"
)

// Short returns the first 32 hex digits of [Full], enough to recognize a repeat.
func Short(v any) string { return Full(v)[:32] }

// Full returns the SHA-256 of a value's JSON, in hex.
func Full(v any) string {
	if a, ok := v.(jsontext.Appender); ok {
		sum := sha256.Sum256(a.AppendJSON(make([]byte, 0, 512)))
		return hex.EncodeToString(sum[:])
	}
	h := sha256.New()
	if err := json.NewEncoder(lineTrimmer{h}).Encode(v); err != nil { // Marshal would make a copy
		panic(err) // callers pass plain data and checked JSON
	}
	return hex.EncodeToString(h.Sum(nil))
}

// lineTrimmer drops the newline that json.Encoder appends.
type lineTrimmer struct{ io.Writer }

func (l lineTrimmer) Write(b []byte) (int, error) {
	n, err := l.Writer.Write(bytes.TrimSuffix(b, []byte{'\n'}))
	return n + 1, err
}

// ID returns an id in the form of a UUID (version 8, RFC 9562) that depends only on names.
func ID(names ...string) string {
	h := sha256.New()
	for _, n := range names {
		fmt.Fprintf(h, "%d:%s", len(n), n)
	}
	b := h.Sum(nil)[:16]
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
