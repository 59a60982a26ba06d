package program

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// MaxLine is the longest line that is read, in bytes. What is longer is skipped.
const MaxLine = 8 << 20

// Lines cuts what a program writes into lines. It holds no more than MaxLine.
type Lines struct {
	cut      []byte // a line whose end has not come
	skipping bool   // up to the end of a line that is too long
	Skipped  int    // lines that were too long
}

// Add returns the lines that a piece ends. They are good until the next call.
func (l *Lines) Add(piece []byte) (lines [][]byte) {
	for {
		end := bytes.IndexByte(piece, '\n')
		rest := piece
		if end >= 0 {
			rest = piece[:end]
		}
		switch {
		case l.skipping:
		case len(l.cut)+len(rest) > MaxLine:
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
		piece = piece[end+1:]
	}
}

// Rest returns what came after the last line's end.
func (l *Lines) Rest() []byte {
	rest := l.cut
	l.cut = nil
	return rest
}

// decodeLine decodes a line that is a JSON object. A field of another type than we
// know is as if it were not there.
func decodeLine(line []byte, v any) error {
	if trimmed := bytes.TrimLeft(line, " \t"); len(trimmed) == 0 || trimmed[0] != '{' {
		return errors.New("the line is no JSON object")
	}
	err := json.Unmarshal(line, v)
	if _, other := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !other {
		return fmt.Errorf("read a line: %w", err)
	}
	return nil
}
