package matrix

import (
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"mailroom/internal/lazyregexp"
)

// mentionMatcher recognizes mentions of the bot.
type mentionMatcher struct {
	id          string
	inText      *regexp.Regexp // in a text: the id, or the name after an @
	inHTML      *regexp.Regexp // in HTML: a link to the bot
	leadingPill *regexp.Regexp // at the start of HTML, with the link's text
	leadingText *regexp.Regexp // at the start of a text: the id, or a link
}

func newMentionMatcher(bot account) mentionMatcher {
	var ids []string
	for _, id := range []string{bot.ID, url.PathEscape(bot.ID), url.QueryEscape(bot.ID)} {
		ids = append(ids, regexp.QuoteMeta(id))
	}
	id := "(?:" + strings.Join(ids, "|") + ")"
	link := `(?:https://matrix\.to/#/` + id + `|matrix:u/` + regexp.QuoteMeta(strings.TrimPrefix(bot.ID, "@")) +
		`)(?:\?[^"\s)]*)?`
	const end = `(?:$|[^\pL\pN_:.\-]|[:.\-](?:$|[^\pL\pN_]))` // end of a word, which may be followed by punctuation
	word := "(?:" + ids[0] + "|@(?:" + regexp.QuoteMeta(bot.Name) + "|" + regexp.QuoteMeta(localpart(bot.ID)) + "))"
	return mentionMatcher{
		id:          bot.ID,
		inText:      regexp.MustCompile(`(?i)(?:^|[^\pL\pN_@/])` + word + end),
		inHTML:      regexp.MustCompile(`(?i)<a [^>]*href=["']` + link + `["']`),
		leadingPill: regexp.MustCompile(`(?i)^\s*(?:<p>)?\s*<a [^>]*href=["']` + link + `["'][^>]*>([^<]*)</a>`),
		leadingText: regexp.MustCompile(`(?i)^\s*(?:` + ids[0] + `|\[[^\]\n]*\]\(<?` + link + `>?\))(?:[:,]\s*|\s+|$)`),
	}
}

// names reports whether the author's own words, without quotations, name the bot.
func (n mentionMatcher) names(s content) bool {
	return n.inHTML.MatchString(withoutQuotes(s.HTML)) || n.inText.MatchString(withoutQuotedLines(s.Body))
}

// lists reports whether the list of mentions in a message has the bot.
func (n mentionMatcher) lists(s content) bool {
	return s.Mentions != nil && slices.Contains(s.Mentions.Users, n.id)
}

// quotePattern matches the tags of quotations: of a reply's fallback and of what an author quotes.
var quotePattern = lazyregexp.New(`(?i)<(/?)(?:mx-reply|blockquote)(?:\s[^>]*)?>`)

// withoutQuotes returns HTML without its quotations. One that is not closed lasts to the end.
func withoutQuotes(markup string) string {
	var own strings.Builder
	depth, at := 0, 0
	for _, m := range quotePattern().FindAllStringSubmatchIndex(markup, -1) {
		if depth == 0 {
			own.WriteString(markup[at:m[0]])
		}
		if m[2] == m[3] {
			depth++
		} else {
			depth = max(depth-1, 0)
		}
		at = m[1]
	}
	if depth == 0 {
		own.WriteString(markup[at:])
	}
	return own.String()
}

// withoutQuotedLines returns the lines of a text that do not begin with ">".
func withoutQuotedLines(text string) string {
	var own []string
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(strings.TrimLeft(line, " \t\r"), ">") {
			own = append(own, line)
		}
	}
	return strings.Join(own, "\n")
}

// strip removes the bot's id, or a link to it, from the start of a text.
func (n mentionMatcher) strip(text, shown string) string {
	if at := n.leadingText.FindString(text); at != "" {
		return text[len(at):]
	}
	m := n.leadingPill.FindStringSubmatch(shown)
	if m == nil {
		return text
	}
	name, msg := html.UnescapeString(m[1]), strings.TrimLeft(text, " \t\n")
	if name == "" || len(msg) < len(name) || !strings.EqualFold(msg[:len(name)], name) {
		return text
	}
	rest := msg[len(name):]
	if rest != "" && !strings.ContainsRune(":, \t\n", rune(rest[0])) {
		return text
	}
	return strings.TrimLeft(strings.TrimLeft(rest, ":,"), " \t\n")
}
