// Package markdown renders Markdown as models write it.
package markdown

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mailroom/internal/lazyregexp"
)

// Style describes the HTML dialect of a platform.
type Style struct {
	// Lines means that the platform shows line ends as they are. Otherwise they become <br>,
	// except where a block ends the line.
	Lines  bool
	Strike string // element of struck text, such as "s"
	// Schemes are the allowed beginnings of link addresses, such as "https://".
	Schemes []string
}

// HTML renders a text. Anything that is not valid markup is text. With Lines, the visible
// text never has more UTF-16 units than the source. HTML returns "" if nothing would be visible.
func HTML(text string, s Style) string {
	return writer{s}.text(text)
}

// writer renders one text.
type writer struct{ Style }

func (w writer) text(text string) string {
	var out strings.Builder
	lines, before := strings.Split(text, "\n"), ""
	for i := 0; i < len(lines); {
		html, used := w.block(lines[i:])
		if i > 0 {
			out.WriteString(w.separator(before, html))
		}
		out.WriteString(html)
		before, i = html, i+used
	}
	html := out.String()
	if strings.TrimSpace(stripTags(html)) == "" {
		return ""
	}
	return html
}

// separator returns the line end between two rendered blocks.
func (w writer) separator(before, after string) string {
	switch {
	case w.Lines:
		return "\n"
	case strings.HasSuffix(before, "</pre>"), strings.HasSuffix(before, "</blockquote>"),
		strings.HasPrefix(after, "<pre>"), strings.HasPrefix(after, "<blockquote>"):
		return ""
	}
	return "<br>"
}

var (
	fenceLine   = lazyregexp.New("^ {0,3}(```+|~~~+)[ \t]*([^`\n]*)$")
	headLine    = lazyregexp.New(`^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$`)
	quoteLine   = lazyregexp.New(`^ {0,3}> ?(.*)$`)
	itemLine    = lazyregexp.New(`^([ \t]*)[-*+][ \t]+(.*)$`)
	ruleLine    = lazyregexp.New(`^ {0,3}(---+|\*\*\*+|___+)[ \t]*$`)
	tableLine   = lazyregexp.New(`^ {0,3}\|.*\|[ \t]*$`)
	tableBorder = lazyregexp.New(`^ {0,3}\|[ \t:|-]*-[ \t:|-]*\|[ \t]*$`)
	language    = lazyregexp.New(`^[A-Za-z0-9_+#.-]{1,30}$`)
	addressForm = lazyregexp.New(`^[^\s<>"]+$`)
	bareURL     = lazyregexp.New(`^https?://[^\s<>]+`)
	tag         = lazyregexp.New(`<[^>]*>`)
)

// block renders the block at the start of lines and returns how many lines it used.
func (w writer) block(lines []string) (html string, used int) {
	line := lines[0]
	if m := fenceLine().FindStringSubmatch(line); m != nil {
		return renderFence(lines, m[1], strings.TrimSpace(m[2]))
	}
	if len(lines) > 1 && tableLine().MatchString(line) && tableBorder().MatchString(lines[1]) {
		for used = 2; used < len(lines) && tableLine().MatchString(lines[used]); {
			used++
		}
		return "<pre>" + escape(strings.Join(lines[:used], "\n")) + "</pre>", used
	}
	if quoteLine().MatchString(line) {
		var quoted []string
		for used < len(lines) && quoteLine().MatchString(lines[used]) {
			quoted = append(quoted, w.inline(quoteLine().FindStringSubmatch(lines[used])[1], styles{}))
			used++
		}
		return "<blockquote>" + w.joinLines(quoted) + "</blockquote>", used
	}
	if m := headLine().FindStringSubmatch(line); m != nil && m[1] != "" {
		return "<b>" + w.inline(m[1], styles{bold: true}) + "</b>", 1
	}
	if ruleLine().MatchString(line) {
		return "———", 1
	}
	if m := itemLine().FindStringSubmatch(line); m != nil {
		return w.indent(m[1]) + "• " + w.inline(m[2], styles{}), 1
	}
	return w.inline(line, styles{}), 1
}

// indent returns the indentation of a list item.
func (w writer) indent(space string) string {
	if w.Lines {
		return space
	}
	return strings.Repeat("&nbsp;", 2*len(space))
}

// joinLines joins the lines of a block.
func (w writer) joinLines(lines []string) string {
	if w.Lines {
		return strings.Join(lines, "\n")
	}
	return strings.Join(lines, "<br>")
}

// renderFence renders a code fence. An unclosed fence ends with the text.
func renderFence(lines []string, fence, info string) (html string, used int) {
	var code []string
	for used = 1; used < len(lines); used++ {
		line := strings.TrimSpace(lines[used])
		if len(line) >= len(fence) && strings.Trim(line, fence[:1]) == "" {
			used++
			break
		}
		code = append(code, lines[used])
	}
	switch {
	case language().MatchString(info):
		return `<pre><code class="language-` + info + `">` + escape(strings.Join(code, "\n")) + "</code></pre>", used
	case info != "":
		code = append([]string{info}, code...)
	}
	return "<pre>" + escape(strings.Join(code, "\n")) + "</pre>", used
}

// styles are the styles of the enclosing text, which platforms do not accept twice.
type styles struct{ bold, italic, strike, link bool }

// inline renders the markup within a line.
func (w writer) inline(s string, in styles) string {
	var out strings.Builder
	for i := 0; i < len(s); {
		html, used := w.mark(s, i, in)
		if used == 0 {
			_, used = utf8.DecodeRuneInString(s[i:])
			html = escape(s[i : i+used])
		}
		out.WriteString(html)
		i += used
	}
	return out.String()
}

// mark renders the markup at i; used is 0 if there is none.
func (w writer) mark(s string, i int, in styles) (html string, used int) {
	switch c := s[i]; c {
	case '\\':
		if i+1 < len(s) && s[i+1] < utf8.RuneSelf && (unicode.IsPunct(rune(s[i+1])) || unicode.IsSymbol(rune(s[i+1]))) {
			return escape(s[i+1 : i+2]), 2
		}
	case '`':
		n := runLength(s, i)
		if end := closingRun(s, i+n, n, '`'); end > 0 {
			return "<code>" + escape(trimCode(s[i+n:end])) + "</code>", end + n - i
		}
		return s[i : i+n], n
	case '!':
		if i+1 < len(s) && s[i+1] == '[' {
			if html, used = w.link(s, i+1, in); used > 0 {
				return html, used + 1
			}
		}
	case '[':
		return w.link(s, i, in)
	case '*', '_', '~':
		return w.emphasis(s, i, in)
	case 'h':
		before, _ := utf8.DecodeLastRuneInString(s[:i])
		if at := bareURL().FindString(s[i:]); at != "" && (i == 0 || !isWordRune(before)) {
			return escape(at), len(at) // asterisks and underscores in a URL do not start emphasis
		}
	}
	return "", 0
}

// emphasis renders bold, italic and struck text.
func (w writer) emphasis(s string, i int, in styles) (html string, used int) {
	c, n := s[i], runLength(s, i)
	before, _ := utf8.DecodeLastRuneInString(s[:i])
	if c == '_' && i > 0 && isWordRune(before) || i+n < len(s) && s[i+n] == ' ' {
		return s[i : i+n], n // part of a word, or a single character
	}
	name, wide, already := "", 2, false
	switch {
	case c == '~' && n == 2:
		name, already, in.strike = w.Strike, in.strike, true
	case c != '~' && n >= 2:
		name, already, in.bold = "b", in.bold, true
	case c != '~' && n == 1:
		name, wide, already, in.italic = "i", 1, in.italic, true
	default:
		return "", 0
	}
	end := findClosing(s, i+wide, wide, c)
	if end < 0 {
		return s[i : i+n], n
	}
	html, used = w.inline(s[i+wide:end], in), end+wide-i
	if already {
		return html, used
	}
	return "<" + name + ">" + html + "</" + name + ">", used
}

// findClosing returns the start of the mark that closes a span, or -1.
func findClosing(s string, from, wide int, c byte) int {
	for i := from; i < len(s); {
		switch s[i] {
		case '\\':
			i += 2
			continue
		case '`':
			n := runLength(s, i)
			if end := closingRun(s, i+n, n, '`'); end > 0 {
				i = end
			}
			i += n
			continue
		case c:
			n := runLength(s, i)
			after, _ := utf8.DecodeRuneInString(s[i+n:])
			fits := n == wide || n > 2 && n > wide
			if fits && i+n-wide > from && s[i-1] != ' ' && (c != '_' || i+n == len(s) || !isWordRune(after)) {
				return i + n - wide
			}
			i += n
			continue
		}
		i++
	}
	return -1
}

// link renders [words](address).
func (w writer) link(s string, i int, in styles) (html string, used int) {
	end := findBalanced(s, i, '[', ']')
	if in.link || end < 0 || end+1 >= len(s) || s[end+1] != '(' {
		return "", 0
	}
	last := findBalanced(s, end+1, '(', ')')
	if last < 0 {
		return "", 0
	}
	words, address := s[i+1:end], s[end+2:last]
	if !w.links(address) || strings.TrimSpace(words) == "" {
		return "", 0
	}
	in.link = true
	return `<a href="` + escape(address) + `">` + w.inline(words, in) + "</a>", last + 1 - i
}

// links reports whether an address may be linked.
func (w writer) links(address string) bool {
	return addressForm().MatchString(address) && slices.ContainsFunc(w.Schemes, func(begin string) bool {
		return len(address) > len(begin) && strings.HasPrefix(address, begin)
	})
}

// findBalanced returns the index of the bracket that closes the one at i.
func findBalanced(s string, i int, open, shut byte) int {
	depth := 0
	for ; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case open:
			depth++
		case shut:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// runLength returns how often the byte at i repeats.
func runLength(s string, i int) (n int) {
	for i+n < len(s) && s[i+n] == s[i] {
		n++
	}
	return n
}

// closingRun returns the start of the next run of exactly n bytes c, or -1.
func closingRun(s string, from, n int, c byte) int {
	for i := from; i < len(s); i++ {
		if s[i] == c {
			m := runLength(s, i)
			if m == n {
				return i
			}
			i += m - 1
		}
	}
	return -1
}

// trimCode removes the padding that code in backticks needs if it begins or ends with a backtick.
func trimCode(code string) string {
	if len(code) > 2 && code[0] == ' ' && code[len(code)-1] == ' ' {
		return code[1 : len(code)-1]
	}
	return code
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func escape(s string) string {
	if !strings.ContainsAny(s, `&<>"`) {
		return s
	}
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}

// stripTags returns the visible text of rendered HTML, still escaped.
func stripTags(html string) string { return tag().ReplaceAllString(html, "") }
