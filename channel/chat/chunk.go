package chat

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Chunk is the part of a text that one message holds.
type Chunk struct {
	Text string // of the message
	End  int    // offset in the whole text, in bytes, at which the chunk ends
}

// SplitText splits a text from a byte offset on into messages of the platform's size. It drops
// only the white space at a split. If it splits a code fence, it closes the fence and reopens it
// with its language. A text of white space has no chunks.
func SplitText(text string, t Capabilities, from int) []Chunk {
	c := newSplitter(text, t)
	var all []Chunk
	for at := from; at < len(text); {
		p := c.next(at)
		at = p.End
		if strings.TrimSpace(p.Text) != "" {
			all = append(all, p)
		} else if len(all) > 0 {
			all[len(all)-1].End = at // after this part only white space follows
		}
	}
	return all
}

// TextHead returns the beginning of an unfinished text in one message that ends with mark.
func TextHead(text string, t Capabilities, mark string) string {
	t.MaxUnits -= t.Units(mark)
	text = strings.TrimRight(text, " \t\r\n")
	if t.MaxUnits <= 0 || text == "" {
		return ""
	}
	c := newSplitter(text, t)
	shown := c.next(0)
	if !c.fits(shown.Text) {
		return ""
	}
	if shown.End == len(text) {
		if f := c.fenceAt(len(text)); f.mark != "" && c.fits(shown.Text, f.close()) {
			shown.Text += f.close()
		}
	}
	return shown.Text + mark
}

// fence is an open code fence. The zero value means none.
type fence struct {
	mark string // such as ```
	line string // the opening line
}

func (f fence) open() string {
	if f.mark == "" {
		return ""
	}
	return f.line + "\n"
}

func (f fence) close() string {
	if f.mark == "" {
		return ""
	}
	return "\n" + f.mark
}

// next returns the fence that is open after a line.
func (f fence) next(line string) fence {
	s := strings.TrimSpace(line)
	if s == "" || s[0] != '`' && s[0] != '~' {
		return f
	}
	rest := strings.TrimLeft(s, s[:1])
	mark := s[:len(s)-len(rest)]
	switch {
	case len(mark) < 3:
		return f
	case f.mark != "":
		if rest == "" && mark[0] == f.mark[0] && len(mark) >= len(f.mark) {
			return fence{}
		}
		return f
	case mark[0] == '`' && strings.Contains(rest, "`"):
		return f // inline code
	}
	return fence{mark: mark, line: s}
}

// textLine is one line of a text, without its line end.
type textLine struct {
	start, end int   // offsets in bytes
	fence      fence // open before the line
}

// splitter splits one text.
type splitter struct {
	text  string
	caps  Capabilities
	lines []textLine
}

func newSplitter(text string, t Capabilities) *splitter {
	c := &splitter{text: text, caps: t}
	var f fence
	for at := 0; at <= len(text); {
		end := len(text)
		if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i
		}
		c.lines = append(c.lines, textLine{start: at, end: end, fence: f})
		f = f.next(text[at:end])
		at = end + 1
	}
	return c
}

// fits reports whether the parts fit into one message. No unit has more than four bytes, which
// bounds the cost of counting.
func (c *splitter) fits(parts ...string) bool {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	return size <= 4*c.caps.MaxUnits && c.caps.Units(strings.Join(parts, "")) <= c.caps.MaxUnits
}

// lineOf returns the index of the line that contains byte at or ends there.
func (c *splitter) lineOf(at int) int {
	lo, hi := 0, len(c.lines)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; c.lines[mid].start <= at {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// fenceAt returns the fence that is open at a byte. A fence whose markers would take more than
// half of a message is shortened to its mark, or ignored.
func (c *splitter) fenceAt(at int) fence {
	var f fence
	if at == len(c.text) {
		last := c.lines[len(c.lines)-1]
		f = last.fence.next(c.text[last.start:last.end])
	} else {
		f = c.lines[c.lineOf(at)].fence
	}
	marks := func(f fence) int { return c.caps.Units(f.open() + f.close()) }
	if f.mark != "" && marks(f) > c.caps.MaxUnits/2 {
		f.line = f.mark
		if marks(f) > c.caps.MaxUnits/2 {
			return fence{}
		}
	}
	return f
}

// next returns the chunk that begins at a byte. Its text is "" if only white space is left.
func (c *splitter) next(from int) Chunk {
	if c.caps.SingleLine {
		return c.nextLine(from)
	}
	from, opened := c.chunkStart(from)
	if strings.TrimSpace(c.text[from:]) == "" {
		return Chunk{End: len(c.text)}
	}
	if rest := strings.TrimRight(c.text[from:], " \t\r\n"); c.fits(opened.open(), rest) {
		return Chunk{Text: opened.open() + rest, End: len(c.text)}
	}
	hard := from + c.bytesThatFit(opened.open(), from)
	for _, try := range []struct {
		least int
		last  func(least, to int) int
	}{
		{from + (hard-from)/2, c.lastParagraph},
		{from + (hard-from)/2, c.lastItem},
		{from + (hard-from)/3, c.lastLine},
		{from + (hard-from)/2, c.lastWord},
		{from, c.lastGrapheme},
		{from, c.lastRune},
	} {
		for to := try.last(try.least, hard); to > try.least; to = try.last(try.least, to-1) {
			if p, ok := c.makeChunk(opened, from, to); ok {
				return p
			}
		}
	}
	_, size := utf8.DecodeRuneInString(c.text[from:]) // a single character exceeds the limit
	return Chunk{Text: c.text[from : from+size], End: from + size}
}

// chunkStart skips empty lines, and the closing line of a fence that the chunk before has closed.
// It returns the chunk's first byte and the fence that is open there.
func (c *splitter) chunkStart(from int) (int, fence) {
	opened := c.fenceAt(from)
	for from < len(c.text) && (c.text[from] == '\n' || c.text[from] == '\r') {
		from++
	}
	l := c.lines[c.lineOf(from)]
	if from == l.start && opened.mark != "" && (l.fence.next(c.text[l.start:l.end]) == fence{}) {
		return min(l.end+1, len(c.text)), fence{}
	}
	return from, opened
}

// makeChunk returns the text between two bytes with the fence markers that it needs, and whether
// it fits.
func (c *splitter) makeChunk(opened fence, from, to int) (Chunk, bool) {
	closed := c.fenceAt(to)
	body := strings.TrimRight(c.text[from:to], "\r\n")
	if closed.mark == "" {
		body = strings.TrimRight(body, " \t\r\n")
	}
	if strings.TrimSpace(body) == "" {
		return Chunk{End: to}, true
	}
	text := opened.open() + body + closed.close()
	return Chunk{Text: text, End: to}, c.fits(text)
}

// bytesThatFit returns how many bytes from an offset on fit into one message after a beginning.
func (c *splitter) bytesThatFit(beginning string, from int) int {
	rest := c.text[from:]
	most := min(len(rest), 4*c.caps.MaxUnits)
	return sort.Search(most, func(n int) bool {
		n++
		for n < len(rest) && !utf8.RuneStart(rest[n]) {
			n++
		}
		return !c.fits(beginning, rest[:n])
	})
}

// lastParagraph returns the last offset in (least, to] at which a paragraph begins outside of a
// fence, or 0.
func (c *splitter) lastParagraph(least, to int) int {
	return c.lastBreak(least, to, func(i int) bool {
		l := c.lines[i]
		here := c.text[l.start:l.end]
		blank := i > 0 && strings.TrimSpace(c.text[c.lines[i-1].start:c.lines[i-1].end]) == ""
		opens := l.fence.next(here).mark != ""
		ended := i > 0 && c.lines[i-1].fence.mark != ""
		return l.fence.mark == "" && (blank || opens || ended || strings.HasPrefix(here, "#"))
	})
}

// lastItem is lastParagraph for list items.
func (c *splitter) lastItem(least, to int) int {
	return c.lastBreak(least, to, func(i int) bool {
		l := c.lines[i]
		return l.fence.mark == "" && isListItem(c.text[l.start:l.end])
	})
}

// lastLine is lastParagraph for any line except one that closes a fence.
func (c *splitter) lastLine(least, to int) int {
	return c.lastBreak(least, to, func(i int) bool {
		l := c.lines[i]
		return l.fence.mark == "" || l.fence.next(c.text[l.start:l.end]).mark != ""
	})
}

func (c *splitter) lastBreak(least, to int, good func(i int) bool) int {
	for i := c.lineOf(to); i > 0; i-- {
		if start := c.lines[i].start; start <= least {
			return 0
		} else if start <= to && good(i) {
			return start
		}
	}
	return 0
}

// lastWord is lastParagraph for offsets after white space.
func (c *splitter) lastWord(least, to int) int {
	for at := to; at > least; at-- {
		if c.text[at-1] == ' ' || c.text[at-1] == '\n' || c.text[at-1] == '\t' {
			return at
		}
	}
	return 0
}

// lastRune returns the last offset up to to at which a rune begins.
func (c *splitter) lastRune(_, to int) int {
	for to > 0 && to < len(c.text) && !utf8.RuneStart(c.text[to]) {
		to--
	}
	return to
}

// lastGrapheme returns the last offset in (least, to] at which a grapheme begins, or 0.
func (c *splitter) lastGrapheme(least, to int) int {
	const most = 64 // bytes of a grapheme; a longer one is split
	for at := c.lastRune(least, to); at > least && to-at < most; at = c.lastRune(least, at-1) {
		if !sameGrapheme(c.text, at) {
			return at
		}
	}
	return 0
}

// sameGrapheme reports whether the runes around an offset belong to one grapheme.
func sameGrapheme(text string, at int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	after, _ := utf8.DecodeRuneInString(text[at:])
	const joiner = '\u200d'
	switch {
	case at == 0 || at == len(text):
		return false
	case before == joiner, after == joiner, before == '\r' && after == '\n':
		return true
	case unicode.In(after, unicode.Mn, unicode.Me, unicode.Mc):
		return true
	case after >= 0x1F3FB && after <= 0x1F3FF: // skin tone modifier
		return true
	case isRegionalIndicator(before) && isRegionalIndicator(after):
		n := 0
		for rest := text[:at]; ; n++ {
			r, size := utf8.DecodeLastRuneInString(rest)
			if !isRegionalIndicator(r) || n == 64 {
				break
			}
			rest = rest[:len(rest)-size]
		}
		return n%2 == 1
	}
	return false
}

func isRegionalIndicator(r rune) bool { return r >= 0x1F1E6 && r <= 0x1F1FF }

// isListItem reports whether a line begins a list item, a quotation or a table row.
func isListItem(line string) bool {
	s := strings.TrimLeft(line, " \t")
	if s == "" || len(line)-len(s) > 3 {
		return false
	}
	digits := strings.TrimLeft(s, "0123456789")
	switch {
	case strings.HasPrefix(s, "- "), strings.HasPrefix(s, "* "), strings.HasPrefix(s, "+ "), s[0] == '>', s[0] == '|':
		return true
	case len(digits) < len(s):
		return strings.HasPrefix(digits, ". ") || strings.HasPrefix(digits, ") ")
	}
	return false
}

// nextLine is next for a platform whose messages are one line.
func (c *splitter) nextLine(from int) Chunk {
	end := c.lines[c.lineOf(from)].end
	if strings.TrimSpace(c.text[from:end]) == "" {
		return Chunk{End: min(end+1, len(c.text))}
	}
	if whole := strings.TrimRight(c.text[from:end], " \t\r"); c.fits(whole) {
		return Chunk{Text: whole, End: end}
	}
	hard := from + c.bytesThatFit("", from)
	to := c.lastWord(from+(hard-from)/2, hard)
	if to == 0 {
		to = c.lastGrapheme(from, hard)
	}
	if to == 0 {
		to = hard
	}
	if to <= from {
		_, size := utf8.DecodeRuneInString(c.text[from:])
		to = from + size
	}
	return Chunk{Text: strings.TrimRight(c.text[from:to], " \t\r"), End: to}
}
