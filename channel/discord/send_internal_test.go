package discord

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"mailroom/channel/chat"
	"mailroom/channel/markdown"
	"mailroom/channel/platformtest"
)

// Discord renders the Markdown of a message itself. Its code blocks end at the first three backticks, see
// markdown.TestNoTextEndsItsFence.
func TestAFencedTextIsSentAsItIs(t *testing.T) {
	for _, text := range platformtest.HostileTexts() {
		fenced := markdown.Fence(text)
		got, err := messageParams(chat.Message{Text: fenced})
		if err != nil || got["content"] != fenced {
			t.Errorf("%v: %q is %q", err, text, got["content"])
		}
		if diff := gocmp.Diff(noMentions(), got["allowed_mentions"]); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}
