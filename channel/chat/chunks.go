package chat

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// chunk is what one message takes of a text.
type chunk struct {
	text string // to be sent
	end  int    // bytes of the whole text that are said once it is sent
}

// splitText cuts a text into messages of a platform, from the byte that begins with
// from on; one that was said before is not said again. Nothing is lost but the white
// space at a cut, and nothing is added but the marks of a code fence that had to be
// cut: it is closed, and opened again with its language. A text of white space alone
// has no pieces.
func splitText(text string, t Capabilities, from int) []chunk {
	c := newSplitter(text, t)
	var all []chunk
	for at := from; at < len(text); {
		p := c.next(at)
		at = p.end
		if strings.TrimSpace(p.text) != "" {
			all = append(all, p)
		} else if len(all) > 0 {
			all[len(all)-1].end = at // nothing but white space follows
		}
	}
	return all
}

// headOf is the beginning of a text that is still being written, in one message that
// ends with mark.
func headOf(text string, t Capabilities, mark string) string {
	t.MaxUnits -= t.Units(mark)
	text = strings.TrimRight(text, " \t\r\n")
	if t.MaxUnits <= 0 || text == "" {
		return ""
	}
	c := newSplitter(text, t)
	shown := c.next(0)
	if !c.fits(shown.text) {
		return ""
	}
	if shown.end == len(text) {
		if f := c.fenceAt(len(text)); f.mark != "" && c.fits(shown.text, f.close()) {
			shown.text += f.close()
		}
	}
	return shown.text + mark
}

// fence is an open code fence; the zero value is none.
type fence struct {
	mark string // such as ```
	line string // that opened it
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

// next is the fence that is open after a line.
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
		return f // code within a line
	}
	return fence{mark: mark, line: s}
}

// line is one line of a text, without its end.
type line struct {
	start, end int   // of its bytes
	fence      fence // that is open before it
}

// splitter cuts one text.
type splitter struct {
	text  string
	caps  Capabilities
	lines []line
}

func newSplitter(text string, t Capabilities) *splitter {
	c := &splitter{text: text, caps: t}
	var f fence
	for at := 0; at <= len(text); {
		end := len(text)
		if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i
		}
		c.lines = append(c.lines, line{start: at, end: end, fence: f})
		f = f.next(text[at:end])
		at = end + 1
	}
	return c
}

// fits reports whether one message takes these. No unit has more than four bytes.
func (c *splitter) fits(parts ...string) bool {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	return size <= 4*c.caps.MaxUnits && c.caps.Units(strings.Join(parts, "")) <= c.caps.MaxUnits
}

// lineOf is the index of the line that has byte at, or ends with it.
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

// fenceAt is the fence that is open at a byte: one that a platform cannot show cut,
// because its marks take most of a message, is none.
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

// next is the piece that begins at a byte. Its text is "" if that is of white space.
func (c *splitter) next(from int) chunk {
	if c.caps.SingleLine {
		return c.nextLine(from)
	}
	from, opened := c.chunkStart(from)
	if strings.TrimSpace(c.text[from:]) == "" {
		return chunk{end: len(c.text)}
	}
	if rest := strings.TrimRight(c.text[from:], " \t\r\n"); c.fits(opened.open(), rest) {
		return chunk{text: opened.open() + rest, end: len(c.text)}
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
	_, size := utf8.DecodeRuneInString(c.text[from:]) // more than a message takes, and there is nothing less
	return chunk{text: c.text[from : from+size], end: from + size}
}

// chunkStart is where a piece begins that is to begin at a byte, and the fence that is
// open there: empty lines are passed over, and so is the end of a fence, because the
// piece before has closed it.
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

// chunk is the text between two bytes, with the marks of the fences that are open
// there, if that fits.
func (c *splitter) makeChunk(opened fence, from, to int) (chunk, bool) {
	closed := c.fenceAt(to)
	body := strings.TrimRight(c.text[from:to], "\r\n")
	if closed.mark == "" {
		body = strings.TrimRight(body, " \t\r\n")
	}
	if strings.TrimSpace(body) == "" {
		return chunk{end: to}, true
	}
	text := opened.open() + body + closed.close()
	return chunk{text: text, end: to}, c.fits(text)
}

// bytesThatFit is how many bytes from a byte on fit into one message after its beginning.
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

// lastParagraph is the last byte up to to, and beyond least, at which a paragraph
// begins outside of a fence.
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

// lastItem is the same of an item of a list, which begins where the text does.
func (c *splitter) lastItem(least, to int) int {
	return c.lastBreak(least, to, func(i int) bool {
		l := c.lines[i]
		return l.fence.mark == "" && isListItem(c.text[l.start:l.end])
	})
}

// lastLine is the same of any line but one that ends a fence.
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

// lastWord is the last byte up to to, and beyond least, after which a word begins.
func (c *splitter) lastWord(least, to int) int {
	for at := to; at > least; at-- {
		if c.text[at-1] == ' ' || c.text[at-1] == '\n' || c.text[at-1] == '\t' {
			return at
		}
	}
	return 0
}

// lastRune is the last byte up to to at which a character begins.
func (c *splitter) lastRune(_, to int) int {
	for to > 0 && to < len(c.text) && !utf8.RuneStart(c.text[to]) {
		to--
	}
	return to
}

// lastGrapheme is the same of what people see as one character.
func (c *splitter) lastGrapheme(least, to int) int {
	const most = 64 // bytes of one; what is longer is cut
	for at := c.lastRune(least, to); at > least && to-at < most; at = c.lastRune(least, at-1) {
		if !sameGrapheme(c.text, at) {
			return at
		}
	}
	return 0
}

// sameGrapheme reports whether the characters before and after a byte belong together.
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
	case after >= 0x1F3FB && after <= 0x1F3FF: // the colour of a skin
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

// isListItem reports whether a line begins an item of a list, a quotation or a row of a
// table.
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

// nextLine is the next piece where a message is one line.
func (c *splitter) nextLine(from int) chunk {
	end := c.lines[c.lineOf(from)].end
	if strings.TrimSpace(c.text[from:end]) == "" {
		return chunk{end: min(end+1, len(c.text))}
	}
	if whole := strings.TrimRight(c.text[from:end], " \t\r"); c.fits(whole) {
		return chunk{text: whole, end: end}
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
	return chunk{text: strings.TrimRight(c.text[from:to], " \t\r"), end: to}
}
