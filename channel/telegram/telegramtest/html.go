package telegramtest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// PlainText returns the visible text of a message in HTML. problem is why Telegram would reject
// it, "" if it would not.
func PlainText(html string) (text, problem string) {
	var out strings.Builder
	var open []string
	for i := 0; i < len(html); {
		switch html[i] {
		case '<':
			end := strings.IndexByte(html[i:], '>')
			if end < 0 {
				return "", fmt.Sprintf("Unclosed start tag at byte offset %d", i)
			}
			body := html[i+1 : i+end]
			if name, ok := strings.CutPrefix(body, "/"); ok {
				if len(open) == 0 {
					return "", fmt.Sprintf("Unexpected end tag at byte offset %d", i)
				}
				if last := open[len(open)-1]; last != name {
					return "", fmt.Sprintf(`Unmatched end tag at byte offset %d, expected "</%s>", found "</%s>"`, i, last, name)
				}
				open = open[:len(open)-1]
			} else {
				name, rest, _ := strings.Cut(body, " ")
				if !knownTags.MatchString(name) || rest != "" && !attributePattern.MatchString(rest) {
					return "", fmt.Sprintf("Unsupported start tag %q at byte offset %d", name, i)
				}
				open = append(open, name)
			}
			i += end + 1
		case '&':
			m := referencePattern.FindStringSubmatch(html[i:])
			if m == nil {
				out.WriteByte('&')
				i++
				continue
			}
			out.WriteString(decodeReference(m[1]))
			i += len(m[0])
		default:
			out.WriteByte(html[i])
			i++
		}
	}
	if len(open) > 0 {
		return "", fmt.Sprintf("Can't find end tag corresponding to start tag %q", open[len(open)-1])
	}
	return out.String(), ""
}

var (
	knownTags        = regexp.MustCompile(`^(b|strong|i|em|u|ins|s|strike|del|a|code|pre|blockquote|tg-spoiler)$`)
	attributePattern = regexp.MustCompile(`^(href|class)="[^"<>]*"$`)
	referencePattern = regexp.MustCompile(`^&(lt|gt|amp|quot|#[0-9]{1,7});`)
)

func decodeReference(name string) string {
	switch name {
	case "lt":
		return "<"
	case "gt":
		return ">"
	case "amp":
		return "&"
	case "quot":
		return `"`
	}
	n, err := strconv.Atoi(name[1:])
	if err != nil {
		return ""
	}
	return string(rune(n))
}
