package program

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
)

// MaxLine is the maximum length of a line, in bytes. Longer lines are skipped.
const MaxLine = 8 << 20

// Lines splits a program's output into lines. It buffers at most Max bytes.
type Lines struct {
	Max      int    // maximum length of a line, in bytes; 0 is MaxLine
	cut      []byte // incomplete line
	skipping bool   // inside a line that is too long
	Skipped  int    // lines that were too long
}

// Add returns the lines that chunk completes. They are valid until the next call.
func (l *Lines) Add(chunk []byte) (lines [][]byte) {
	for {
		end := bytes.IndexByte(chunk, '\n')
		rest := chunk
		if end >= 0 {
			rest = chunk[:end]
		}
		switch {
		case l.skipping:
		case len(l.cut)+len(rest) > cmp.Or(l.Max, MaxLine):
			l.cut, l.skipping = nil, true
			l.Skipped++
		case end < 0:
			l.cut = append(l.cut, rest...)
		default:
			lines = append(lines, append(l.cut, rest...))
			l.cut = nil
		}
		if end < 0 {
			return lines
		}
		l.skipping = false
		chunk = chunk[end+1:]
	}
}

// Rest returns the output after the last newline.
func (l *Lines) Rest() []byte {
	rest := l.cut
	l.cut = nil
	return rest
}

// decodeLine decodes a line that must be a JSON object. Fields of an unexpected type are ignored.
func decodeLine(line []byte, v any) error {
	if trimmed := bytes.TrimLeft(line, " \t"); len(trimmed) == 0 || trimmed[0] != '{' {
		return errors.New("the line is not a JSON object")
	}
	err := json.Unmarshal(line, v)
	if _, other := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !other {
		return fmt.Errorf("read a line: %w", err)
	}
	return nil
}
