package format

import (
	"bytes"
	"encoding/binary"
	"math/bits"

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
	shrunk = 0x01 // first byte of a shrunk text

	tokenThread = 0x01
	tokenRun    = 0x02
	tokenTime   = 0x03
	tokenPhrase = 0x0b // of the first phrase; behind '\n', which separates lines
)

// phrases returns the texts that are stored as one byte. No phrase is the beginning of another one. The position of a
// phrase is part of the stored form, so add new phrases at the end.
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
	texts [tokens][]byte // texts by token
	// before has the phrases that begin one byte before a quotation mark, at has those that begin with
	// one, and after has the ids and the time.
	before, at, after tokenSets
}

// tokenSets has the tokens of texts, as bits, by a byte in which most texts differ.
type tokenSets [256]uint32

const differing = 2 // position of that byte

func (s *tokenSets) add(text []byte, token int)    { s[text[differing]] |= 1 << token }
func (s *tokenSets) remove(text []byte, token int) { s[text[differing]] &^= 1 << token }

// tokens is the number of byte values that JSON does not contain.
const tokens = 0x20

// NewShrinker returns a Shrinker.
func NewShrinker() *Shrinker {
	s := &Shrinker{}
	for i, p := range phrases() {
		s.texts[tokenPhrase+i] = []byte(p)
		if p[0] == '"' {
			s.at.add([]byte(p), tokenPhrase+i)
		} else {
			s.before.add([]byte(p), tokenPhrase+i)
		}
	}
	return s
}

// Append appends to row what the store keeps of the lines of a thread's entries. run is the run of the first entry,
// or "".
func (s *Shrinker) Append(row, lines []byte, thread, run string) []byte {
	if len(lines) > maxShrunk || !shrinkable(lines) {
		return append(row, lines...)
	}
	row = append(row, shrunk)
	for i, text := range [...][]byte{[]byte(thread), []byte(run), timeOf(lines)} {
		if len(text) < minText {
			text = nil
		}
		row = append(binary.AppendUvarint(row, uint64(len(text))), text...)
		if s.texts[tokenThread+i] = text; len(text) > 0 {
			s.after.add(text, tokenThread+i)
		}
	}
	row = s.appendShrunk(row, lines)
	for i := range 3 {
		if text := s.texts[tokenThread+i]; len(text) > 0 {
			s.after.remove(text, tokenThread+i)
		}
	}
	return row
}

// appendShrunk appends lines to row. All texts begin at quotation marks, so it looks only there.
func (s *Shrinker) appendShrunk(row, lines []byte) []byte {
	plain := 0 // where the lines that are not in row begin
	for from := 0; ; {
		next := bytes.IndexByte(lines[from:], '"')
		if next < 0 {
			return append(row, lines[plain:]...)
		}
		quote := from + next
		from = quote + 1
		begin, token := quote, byte(0)
		if quote > plain {
			if token = s.match(&s.before, lines[quote-1:]); token != 0 {
				begin--
			}
		}
		if token == 0 {
			token = s.match(&s.at, lines[quote:])
		}
		if token != 0 {
			row = append(append(row, lines[plain:begin]...), token)
			plain = begin + len(s.texts[token])
			from = plain
		}
		if from > 0 && lines[from-1] == '"' {
			if token = s.match(&s.after, lines[from:]); token != 0 {
				row = append(append(row, lines[plain:from]...), token)
				plain = from + len(s.texts[token])
				from = plain
			}
		}
	}
}

// match returns the token of a text with which b begins, or 0.
func (s *Shrinker) match(of *tokenSets, b []byte) byte {
	if len(b) <= differing {
		return 0
	}
	for set := of[b[differing]]; set != 0; set &= set - 1 {
		token := bits.TrailingZeros32(set)
		if text := s.texts[token]; len(b) >= len(text) && string(b[:len(text)]) == string(text) {
			return byte(token)
		}
	}
	return 0
}

// shrinkable reports whether lines have no byte that is a token.
func shrinkable(lines []byte) bool {
	for i := 0; i < len(lines); {
		if rest := lines[i:]; len(rest) >= 8 && !hasControl(binary.LittleEndian.Uint64(rest)) {
			i += 8
			continue
		}
		if lines[i] < 0x20 && lines[i] != '\n' {
			return false
		}
		i++
	}
	return len(lines) > 0
}

// hasControl reports whether one of eight bytes may be below 0x20. For bytes below 0x80 the answer
// is exact.
func hasControl(eight uint64) bool {
	const each = 0x0101010101010101
	return (eight-0x20*each)&^eight&(0x80*each) != 0
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
			return nil, mailroom.Errorf(mailroom.CodeInternal,
				"a row of entries is damaged: it contains the unknown byte %#x", rest[0])
		}
		lines, rest = append(lines, text...), rest[1:]
	}
	return lines, nil
}
