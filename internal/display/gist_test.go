package display

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTheGistOfAMarkdownTextIsOnePlainLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                                     "",
		"plain text":                           "plain text",
		"## Result\n\nAll **372** checks pass": "Result All 372 checks pass",
		"> - [ ] *buy* `milk`":                 "buy milk",
		"1. one\n2) two":                       "one two",
		"| a | b |\n|---|:-:|\n| 1 | 2 |":      "a b 1 2",
		"a\n---\nb\n***\nc":                    "a b c",
		"```go\nx := **p\n```\nafter `**`":     "x := **p after **",
		"``a ` b``":                            "a ` b",
		"~~~\n# not a heading":                 "# not a heading",
		"[Deploy](https://x.y/z_(1)) it":       "Deploy it",
		"![a picture](file:///x) here":         "a picture here",
		"[x] done [1] (2)":                     "done [1] (2)",
		"[](https://x.y)":                      "[](https://x.y)",
		"2 * 3 * 4, snake_case_name, a**b":     "2 * 3 * 4, snake_case_name, a**b",
		"__init__ and ***all*** ~~gone~~ ~5":   "init and all gone ~5",
		`\*not emphasis\* C:\temp`:             `*not emphasis* C:\temp`,
		"*a **b* c":                            "a **b c",
		"#5 is no heading, nor 5.5":            "#5 is no heading, nor 5.5",
		"<b>kept</b> & so":                     "<b>kept</b> & so",
		"broken \xff byte":                     "broken byte",
	} {
		if got := Gist(in, 100); got != want {
			t.Errorf("%q\n is %q\nwant %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"12345": "12345", "123456": "12345…", "1234 678": "1234…", "ÄÖÜßéx": "ÄÖÜßé…",
	} {
		if got := Gist(in, 5); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

func FuzzGist(f *testing.F) {
	for _, s := range []string{
		"**a** `b` [c](d)", strings.Repeat("[", 900), strings.Repeat("*a _b ", 200), "```\n``\n~~~",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Gist(s, 100)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > 101 || strings.Join(strings.Fields(got), " ") != got {
			t.Errorf("%q is %q", s, got)
		}
	})
}
