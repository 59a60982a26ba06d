package outbound

import (
	"strings"
	"testing"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/platformtest"
)

// TestVerbatimTextStaysInItsBlock splits messages with hostile texts. Each chunk is a block of its own, and
// only the last one has the text of the bot behind it.
func TestVerbatimTextStaysInItsBlock(t *testing.T) {
	const link = "https://mail.example.org/decide#a"
	blocks := chat.Capabilities{MaxUnits: 120, Units: func(s string) int { return len(s) }}
	for _, text := range platformtest.HostileTexts() {
		all := chat.SplitText(textOf(channel.Delivery{Verbatim: strings.Repeat(text+"\n\x02\u202e", 4), Text: link}, blocks),
			blocks, 0)
		for i, c := range all {
			words := c.Text
			if i == len(all)-1 {
				words = strings.TrimSuffix(strings.TrimSuffix(words, link), "\n")
			}
			inside, ok := strings.CutPrefix(words, "```\n")
			inside, closed := strings.CutSuffix(inside, "\n```")
			if words != "" && (!ok || !closed) || strings.Contains(inside, "```") || strings.ContainsAny(inside, "\x02\u202e") {
				t.Errorf("chunk %d of %q is %q", i, text, c.Text)
			}
		}
		if !strings.HasSuffix(all[len(all)-1].Text, link) {
			t.Errorf("the link is missing behind %q", text)
		}
		lines := textOf(channel.Delivery{Verbatim: text}, chat.Capabilities{SingleLine: true})
		for line := range strings.SplitSeq(lines, "\n") {
			if !strings.HasPrefix(line, "| ") {
				t.Errorf("a line of %q is %q", text, line)
			}
		}
	}
}
