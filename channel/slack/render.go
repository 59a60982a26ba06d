package slack

import (
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"mailroom/internal/lazyregexp"
)

// escapedUnits returns an upper bound for the length of a text once it is escaped for Slack, in
// UTF-16 units.
func escapedUnits(text string) (n int) {
	for _, r := range text {
		switch r {
		case '&':
			n += len("&amp;")
		case '<', '>':
			n += len("&lt;")
		default:
			n += max(utf16.RuneLen(r), 1)
		}
	}
	return n
}

// utf16Units returns the length of a text in UTF-16 code units.
func utf16Units(text string) (n int) {
	for _, r := range text {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

var (
	fencePattern   = lazyregexp.New("^ {0,3}(```+|~~~+)[ \t]*([^`\n]*)$")
	headingPattern = lazyregexp.New(`^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$`)
	quotePattern   = lazyregexp.New(`^ {0,3}> ?(.*)$`)
	itemPattern    = lazyregexp.New(`^([ \t]*)[-*+][ \t]+(.*)$`)
	rulerPattern   = lazyregexp.New(`^ {0,3}(---+|\*\*\*+|___+)[ \t]*$`)
	rowPattern     = lazyregexp.New(`^ {0,3}\|.*\|[ \t]*$`)
	borderPattern  = lazyregexp.New(`^ {0,3}\|[ \t:|-]*-[ \t:|-]*\|[ \t]*$`)
	linkPattern    = lazyregexp.New(
		`^!?\[([^\[\]\n]+)\]\(((?:https?://|mailto:)[^\s<>()|]+(?:\([^\s<>()|]*\)[^\s<>()|]*)*)\)`)
	autolinkPattern = lazyregexp.New(`^<((?:https?://|mailto:)[^\s<>|]+)>`)
)

// render converts Markdown to Slack's mrkdwn. Marks of mrkdwn cannot be escaped, so Slack formats plain text that looks
// like mrkdwn. render returns "" if no visible text would remain.
func render(text string) string {
	var out []string
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); {
		line := lines[i]
		if m := fencePattern().FindStringSubmatch(line); m != nil {
			code, used := fencedCode(lines[i:], m[1])
			out = append(out, "```", escape(strings.Join(code, "\n")), "```")
			i += used
			continue
		}
		if i+1 < len(lines) && rowPattern().MatchString(line) && borderPattern().MatchString(lines[i+1]) {
			end := i + 2
			for end < len(lines) && rowPattern().MatchString(lines[end]) {
				end++
			}
			out = append(out, "```", escape(strings.Join(lines[i:end], "\n")), "```")
			i = end
			continue
		}
		out = append(out, renderLine(line))
		i++
	}
	all := strings.Join(out, "\n")
	if strings.Trim(all, "` \t\r\n*_~>•") == "" {
		return ""
	}
	return all
}

// fencedCode returns the lines of a code block. lines begins with the opening fence; used is
// the number of lines of the block including its fences.
func fencedCode(lines []string, fence string) (code []string, used int) {
	for used = 1; used < len(lines); used++ {
		line := strings.TrimSpace(lines[used])
		if len(line) >= len(fence) && strings.Trim(line, fence[:1]) == "" {
			return code, used + 1
		}
		code = append(code, lines[used])
	}
	return code, used
}

func renderLine(line string) string {
	switch {
	case rulerPattern().MatchString(line):
		return "———"
	case headingPattern().MatchString(line):
		return bold(spans(headingPattern().FindStringSubmatch(line)[1], true))
	case quotePattern().MatchString(line):
		return ">" + spans(quotePattern().FindStringSubmatch(line)[1], false)
	case itemPattern().MatchString(line):
		m := itemPattern().FindStringSubmatch(line)
		return m[1] + "• " + spans(m[2], false)
	}
	return spans(line, false)
}

// bold puts a text in bold, unless it is blank.
func bold(text string) string {
	if strings.TrimSpace(text) == "" {
		return text
	}
	return "*" + text + "*"
}

// spans renders the inline marks of a line. Within bold text, bold marks are dropped.
func spans(s string, inBold bool) string {
	var out strings.Builder
	for i := 0; i < len(s); {
		text, used := span(s, i, inBold)
		if used == 0 {
			_, used = utf8.DecodeRuneInString(s[i:])
			text = escape(s[i : i+used])
		}
		out.WriteString(text)
		i += used
	}
	return out.String()
}

// span renders the inline mark that begins at i. used is its length in bytes, or 0.
func span(s string, i int, inBold bool) (text string, used int) {
	rest := s[i:]
	switch s[i] {
	case '\\':
		if len(rest) > 1 && strings.ContainsRune("\\`*_{}[]()#+-.!~|>", rune(rest[1])) {
			return escape(rest[1:2]), 2
		}
	case '`':
		n := len(rest) - len(strings.TrimLeft(rest, "`"))
		if end := strings.Index(rest[n:], rest[:n]); end > 0 {
			return "`" + escape(strings.TrimSpace(rest[n:n+end])) + "`", end + 2*n
		}
		return rest[:n], n
	case '[', '!':
		if m := linkPattern().FindStringSubmatch(rest); m != nil {
			return "<" + escape(m[2]) + "|" + label(m[1]) + ">", len(m[0])
		}
	case '<':
		if m := autolinkPattern().FindStringSubmatch(rest); m != nil {
			return "<" + escape(m[1]) + ">", len(m[0])
		}
	case '*', '_', '~':
		return emphasis(s, i, inBold)
	case 'h':
		if at := urlPattern().FindString(rest); at != "" && (i == 0 || !endsInWord(s[:i])) {
			return escape(at), len(at) // asterisks and underscores in a URL are no marks
		}
	}
	return "", 0
}

var urlPattern = lazyregexp.New(`^https?://[^\s<>]+`)

// label renders the text of a link. A | would end it and cannot be escaped.
func label(words string) string {
	return strings.NewReplacer("|", "¦", "**", "", "`", "").Replace(escape(words))
}

// emphasis renders bold, italic and struck text.
func emphasis(s string, i int, inBold bool) (text string, used int) {
	c := s[i]
	n := len(s[i:]) - len(strings.TrimLeft(s[i:], string(c)))
	if c != '*' && i > 0 && endsInWord(s[:i]) {
		return s[i : i+n], n // the mark is within a word, such as snake_case
	}
	mark, wide := "", min(n, 3)
	switch {
	case c == '~' && n == 2:
		mark = "~"
	case c == '~', n > 3:
		return s[i : i+n], n
	case n == 1:
		mark = "_"
	default:
		mark = "*"
	}
	inner := s[i+wide:]
	end := findClosing(inner, s[i:i+wide])
	if end < 1 || inner[0] == ' ' {
		return s[i : i+n], n
	}
	used = wide + end + wide
	text = spans(inner[:end], inBold || mark == "*")
	if mark == "*" && inBold {
		return text, used
	}
	if wide == 3 {
		text = "_" + text + "_"
	}
	return mark + text + mark, used
}

// findClosing returns the index of the mark that closes an emphasis, or -1.
func findClosing(s, mark string) int {
	for i := 0; i < len(s); {
		switch {
		case s[i] == '\\':
			i += 2
		case s[i] == '`':
			n := len(s[i:]) - len(strings.TrimLeft(s[i:], "`"))
			if end := strings.Index(s[i+n:], s[i:i+n]); end >= 0 {
				i += end + n
			}
			i += n
		case s[i] == mark[0]:
			n := len(s[i:]) - len(strings.TrimLeft(s[i:], mark[:1]))
			after := s[i+n:]
			if n >= len(mark) && (n == len(mark) || n > 2) && i > 0 && s[i-1] != ' ' && (mark[0] == '*' ||
				!startsInWord(after)) {
				return i + n - len(mark)
			}
			i += n
		default:
			i++
		}
	}
	return -1
}

// endsInWord reports whether a text ends with a letter or digit.
func endsInWord(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// startsInWord reports whether a text begins with a letter or digit.
func startsInWord(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}
