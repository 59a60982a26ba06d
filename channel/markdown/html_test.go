package markdown_test

import (
	"testing"

	"mailroom/channel/markdown"
)

// Telegram's tests cover a style with Lines.
func TestLineEndsBecomeBreaksWithoutLines(t *testing.T) {
	style := markdown.Style{Strike: "del", Schemes: []string{"https://"}}
	for in, want := range map[string]string{
		"a\nb\n\nc":                    "a<br>b<br><br>c",
		"- a\n  - b":                   "• a<br>&nbsp;&nbsp;&nbsp;&nbsp;• b",
		"a\n```\nx\ny\n```\nb":         "a<pre>x\ny</pre>b",
		"> a\n> b\nc":                  "<blockquote>a<br>b</blockquote>c",
		"https://b/d#a~-_b_-c *d*":     "https://b/d#a~-_b_-c <i>d</i>",
		"~~no~~":                       "<del>no</del>",
		"[a](https://b) [c](tg://d) x": `<a href="https://b">a</a> [c](tg://d) x`,
		" \n\n":                        "",
		"```\n```":                     "",
	} {
		if got := markdown.HTML(in, style); got != want {
			t.Errorf("%q\n is %s\nwant %s", in, got, want)
		}
	}
}
