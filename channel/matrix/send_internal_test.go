package matrix

import (
	"html"
	"strings"
	"testing"

	"mailroom/channel/chat"
	"mailroom/channel/markdown"
	"mailroom/channel/platformtest"
)

func TestAFencedTextHasNoMarkup(t *testing.T) {
	for _, text := range platformtest.HostileTexts() {
		fenced := markdown.Fence(text)
		got := messageContent(chat.Message{Text: fenced})
		inside, ok := strings.CutPrefix(got.HTML, "<pre>")
		inside, closed := strings.CutSuffix(inside, "</pre>")
		if !ok || !closed || strings.ContainsAny(inside, "<>") || "```\n"+html.UnescapeString(inside)+"\n```" != fenced {
			t.Errorf("%q is %q", text, got.HTML)
		}
		if got.Mentions == nil || len(got.Mentions.Users) > 0 {
			t.Errorf("%q mentions %+v", text, got.Mentions)
		}
	}
}
