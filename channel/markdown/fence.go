package markdown

import (
	"strings"

	"mailroom/internal/lazyregexp"
)

const fenceMark = "```"

// longRun matches backticks that could end a code block. Slack and Discord have no fence of more than three.
var longRun = lazyregexp.New("`{3,}")

// Fence returns Markdown that shows a text verbatim: a code block, in which no platform gives links, mentions
// or marks a meaning. Three and more backticks in a row are shown with spaces between them, because they would
// end the block.
func Fence(text string) string {
	text = longRun().ReplaceAllStringFunc(text, func(run string) string {
		return strings.TrimSuffix(strings.Repeat("` ", len(run)), " ")
	})
	return fenceMark + "\n" + text + "\n" + fenceMark
}
