package markdown_test

import (
	"strings"
	"testing"

	"mailroom/channel/markdown"
	"mailroom/channel/platformtest"
)

func TestNoTextEndsItsFence(t *testing.T) {
	for _, text := range append(platformtest.HostileTexts(), "", "x", "a\n```", strings.Repeat("`", 11)) {
		got := markdown.Fence(text)
		inside, ok := strings.CutPrefix(got, "```\n")
		inside, closed := strings.CutSuffix(inside, "\n```")
		if !ok || !closed || strings.Contains(inside, "```") || strings.ReplaceAll(inside, " ",
			"") != strings.ReplaceAll(text, " ", "") {
			t.Errorf("%q is %q", text, got)
		}
	}
}
