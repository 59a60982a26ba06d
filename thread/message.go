package thread

import (
	"strings"

	"mailroom"
)

// JoinText returns the text of the text parts, joined by newlines.
func JoinText(parts []mailroom.Part) string {
	var texts []string
	for _, p := range parts {
		if p.Type == "text" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}
