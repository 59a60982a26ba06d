package format

import (
	"bytes"
	"encoding/binary"
	"slices"

	"mailroom"
)

// The lines of a row repeat the ids of their thread and run, their time, and the names of their fields.
// A Shrinker replaces these by single bytes below 0x20, which JSON does not contain. A shrunk row is
//
//	0x01, thread, run, time, the lines with replacements
//
// where thread, run and time are texts with their length before them, as unsigned varints. Lines in
// clear begin with '{'.
const (
	shrunk = 0x01 // the first byte

	tokenThread = 0x01
	tokenRun    = 0x02
	tokenTime   = 0x03
	tokenPhrase = 0x0b // of the first phrase; behind '\n', which separates lines
)

// phrases returns the texts with a byte of their own, longer ones before those that they contain. The
// position of a phrase is part of the stored form: add new ones behind the others.
func phrases() [20]string {
	return [...]string{
		`,"usage":{"input_tokens":0,"output_tokens":0,"cost_usd":0}}}`,
		`"kind":"message","run":"`,
		`"kind":"run.queued","run":"`,
		`"kind":"run.started","run":"`,
		`"kind":"run.completed","run":"`,
		`,"parts":[{"type":"text","text":"`,
		`"}],"visibility":"all","run":"`,
		`","partial":false,"created_at":"`,
		`","mode":"queue","priority":128,"available_at":"`,
		`,"role":"assistant","sender":"`,
		`,"role":"user","sender":"`,
		`"origin":{"via":"user","sender":"`,
		`","agent_version":"`,
		`","request_id":"`,
		`"messages":["`,
		`","attempt":`,
		`,"body":{"`,
		`{"thread":"`,
		`,"at":"`,
		`,"seq":`,
	}
}

// minText is the length from which ids and times are replaced.
const minText = 4

// maxShrunk bounds the lines that are shrunk, in bytes. Longer ones are mostly text.
const maxShrunk = 64 << 10

// Shrinker shrinks the lines of rows. One goroutine at a time uses it.
type Shrinker struct {
	texts [tokens][]byte // by token
	// starts has, by the first byte of a text, the tokens of the texts that begin with it.
	starts [256][]byte
	row    []byte // of the last Shrink
}

// tokens is the number of byte values that JSON does not contain.
const tokens = 0x20

// NewShrinker returns a Shrinker.
func NewShrinker() *Shrinker {
	s := &Shrinker{}
	for i, p := range phrases() {
		s.texts[tokenPhrase+i] = []byte(p)
		s.starts[p[0]] = append(s.starts[p[0]], tokenPhrase+byte(i))
	}
	return s
}

// Shrink returns the row for the lines of a thread's entries, of which the first one is of the run. The
// row is valid until the next call; it may be lines.
func (s *Shrinker) Shrink(lines []byte, thread, run string) []byte {
	if len(lines) > maxShrunk || !shrinkable(lines) {
		return lines
	}
	row := append(s.row[:0], shrunk)
	for i, text := range [...][]byte{[]byte(thread), []byte(run), timeOf(lines)} {
		if len(text) < minText {
			text = nil
		}
		row = append(binary.AppendUvarint(row, uint64(len(text))), text...)
		s.begin(tokenThread+byte(i), text)
	}
	plain := 0 // where the lines that are not in the row begin
	for i := 0; i < len(lines); {
		token := s.match(lines[i:])
		if token == 0 {
			i++
			continue
		}
		row = append(append(row, lines[plain:i]...), token)
		i += len(s.texts[token])
		plain = i
	}
	s.row = append(row, lines[plain:]...)
	for token := byte(tokenThread); token <= tokenTime; token++ {
		s.end(token)
	}
	return s.row
}

// begin adds the text of a token.
func (s *Shrinker) begin(token byte, text []byte) {
	if s.texts[token] = text; len(text) > 0 {
		s.starts[text[0]] = append(s.starts[text[0]], token)
	}
}

// end removes the text of a token, the last one that was added with its first byte.
func (s *Shrinker) end(token byte) {
	if text := s.texts[token]; len(text) > 0 {
		list := s.starts[text[0]]
		s.starts[text[0]] = slices.DeleteFunc(list, func(t byte) bool { return t == token })
		s.texts[token] = nil
	}
}

// match returns the token of a text with which b begins, or 0.
func (s *Shrinker) match(b []byte) byte {
	for _, token := range s.starts[b[0]] {
		text := s.texts[token]
		if len(b) >= len(text) && b[1] == text[1] && string(b[:len(text)]) == string(text) {
			return token
		}
	}
	return 0
}

// shrinkable reports whether lines have no byte that is a token.
func shrinkable(lines []byte) bool {
	for _, b := range lines {
		if b < 0x20 && b != '\n' {
			return false
		}
	}
	return len(lines) > 0
}

// timeOf returns the time of the first line, nil if it has none.
func timeOf(lines []byte) []byte {
	_, behind, _ := bytes.Cut(lines, []byte(`,"at":"`))
	at, _, _ := bytes.Cut(behind, []byte(`"`))
	return at
}

// clearLines returns the lines of a row, in clear. They may refer to the row.
func clearLines(row []byte) ([]byte, error) {
	if len(row) == 0 || row[0] != shrunk {
		return row, nil
	}
	rest := row[1:]
	var texts [tokens]string
	for token := tokenThread; token <= tokenTime; token++ {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return nil, mailroom.Errorf(mailroom.CodeInternal, "a row of entries is damaged: its header is cut off")
		}
		texts[token], rest = string(rest[n:n+int(size)]), rest[n+int(size):]
	}
	for i, p := range phrases() {
		texts[tokenPhrase+i] = p
	}
	lines := make([]byte, 0, 3*len(rest))
	for len(rest) > 0 {
		plain := 0
		for plain < len(rest) && (rest[plain] >= 0x20 || rest[plain] == '\n') {
			plain++
		}
		lines, rest = append(lines, rest[:plain]...), rest[plain:]
		if len(rest) == 0 {
			break
		}
		text := texts[rest[0]]
		if len(text) == 0 {
			return nil, mailroom.Errorf(mailroom.CodeInternal, "a row of entries is damaged: it contains the unknown byte %#x", rest[0])
		}
		lines, rest = append(lines, text...), rest[1:]
	}
	return lines, nil
}
