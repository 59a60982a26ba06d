package irc

import (
	"strings"
	"unicode/utf8"

	"mailroom/internal/lazyregexp"
)

// fold normalizes a name with the server's case mapping.
func fold(name, mapping string) string {
	folded := []byte(name)
	for i, b := range folded {
		switch {
		case b >= 'A' && b <= 'Z':
			folded[i] = b + 'a' - 'A'
		case mapping != "ascii" && b >= '[' && b <= ']', mapping == "rfc1459" && b == '^':
			folded[i] = b + '{' - '['
		}
	}
	return string(folded)
}

// formatting matches colour and style codes.
var formatting = lazyregexp.New(
	"\x03(?:[0-9]{1,2}(?:,[0-9]{1,2})?)?|\x04(?:[0-9a-fA-F]{6}(?:,[0-9a-fA-F]{6})?)?|[\x02\x0f\x11\x16\x1d\x1e\x1f]")

// plainText returns the text of a line as UTF-8 without formatting. Text that is not valid UTF-8 is
// decoded as Latin-1.
func plainText(line string) string {
	if !utf8.ValidString(line) {
		runes := make([]rune, 0, len(line))
		for i := range len(line) {
			runes = append(runes, rune(line[i]))
		}
		line = string(runes)
	}
	line = formatting().ReplaceAllString(line, "")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' {
			return -1
		}
		return r
	}, line))
}

// isCTCP reports whether a line is a CTCP request, meant for a program.
func isCTCP(line string) bool { return strings.HasPrefix(line, "\x01") }

// stripAddress removes the bot's nick from a line such as "bot: text" or "bot, text".
func stripAddress(line, nick, mapping string) (text string, addressed bool) {
	line = strings.TrimPrefix(line, "@")
	if len(line) < len(nick) || fold(line[:len(nick)], mapping) != fold(nick, mapping) {
		return "", false
	}
	rest := line[len(nick):]
	if rest == "" {
		return "", true
	}
	if rest[0] != ':' && rest[0] != ',' {
		return "", false
	}
	return strings.TrimSpace(rest[1:]), true
}

// splitLines splits a text into lines of at most room bytes. It prefers to cut between words and
// never cuts within a character. It drops empty lines and NUL bytes.
func splitLines(text string, room int) (lines []string) {
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = strings.TrimRight(strings.ReplaceAll(line, "\x00", ""), " \t")
		if strings.HasPrefix(line, "\x01") {
			line = " " + line // or it would be a CTCP request
		}
		for len(line) > room {
			cut := room
			for cut > 1 && !utf8.RuneStart(line[cut]) {
				cut--
			}
			if space := strings.LastIndexByte(line[:cut+1], ' '); space > cut/2 {
				cut = space
			}
			lines = append(lines, line[:cut])
			line = strings.TrimPrefix(line[cut:], " ")
		}
		if strings.Trim(line, " \t") != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
