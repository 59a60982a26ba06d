package chat

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func runes(text string) int { return utf8.RuneCountInString(text) }
func byteLen(text string) int {
	return len(text)
}
func utf16Units(text string) int { return len(utf16.Encode([]rune(text))) }

func texts(all []Chunk) (list []string) {
	for _, p := range all {
		list = append(list, p.Text)
	}
	return list
}

func TestATextIsSplitAtTheBestPlace(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		most int
		want []string
	}{
		"nothing":          {"", 10, nil},
		"white space":      {" \n\t\n", 10, nil},
		"a text that fits": {"hello you", 9, []string{"hello you"}},
		"a blank end":      {"hello you\n\n  \n", 9, []string{"hello you"}},
		"paragraphs":       {"one two\nthree\n\nfour five\nsix", 20, []string{"one two\nthree", "four five\nsix"}},
		"a heading": {"one two three four\n# five\nsix seven", 24, []string{"one two three four",
			"# five\nsix seven"}},
		"items of a list": {"some:\n- one\n  and more\n- two\n  and more", 30,
			[]string{"some:\n- one\n  and more", "- two\n  and more"}},
		"numbered items": {"1. one\n   more\n2. two\n   more", 20, []string{"1. one\n   more", "2. two\n   more"}},
		"lines":          {"one two three\nfour five", 16, []string{"one two three", "four five"}},
		"words":          {"one two three four", 9, []string{"one two", "three", "four"}},
		"one word":       {"abcdefghij", 4, []string{"abcd", "efgh", "ij"}},
		"a long line after a short one": {
			"ab\n" + strings.Repeat("x", 20), 10, []string{"ab\nxxxxxxx", "xxxxxxxxxx", "xxx"}},
		"a fence stays whole": {
			"some words here\n```\na\nb\n```\nend", 20, []string{"some words here", "```\na\nb\n```\nend"}},
		"a fence that is too long": {
			"```go\nline 1\nline 2\nline 3\nline 4\n```", 24,
			[]string{"```go\nline 1\nline 2\n```", "```go\nline 3\nline 4\n```"}},
		"the end of a fence at a chunk's end": {
			"```go\nline 1\nlin 2\n```\nend", 24, []string{"```go\nline 1\nlin 2\n```", "end"}},
		"a longer fence": {"````\nab\n```\ncd\nef\ngh\n````", 20, []string{"````\nab\n```\ncd\n````",
			"````\nef\ngh\n````"}},
		"an unclosed fence": {"```\nab\ncd\nef\ngh\nij", 16, []string{"```\nab\ncd\nef\n```", "```\ngh\nij"}},
		"a fence within a message that is smaller than its marks": {
			"```javascript\nab\n```", 10, []string{"```javascr", "ipt\nab\n```"}},
		"inline code": {"```a``` one two three four", 14, []string{"```a``` one", "two three four"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, texts(SplitText(c.text, Capabilities{MaxUnits: c.most, Units: runes}, 0))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAGraphemeIsNotSplit(t *testing.T) {
	family, flag, accent := "👨‍👩‍👧", "🇩🇪", "e\u0301"
	for name, c := range map[string]struct {
		text  string
		most  int
		units func(string) int
		want  []string
	}{
		"two units of UTF-16":              {"a😀b", 2, utf16Units, []string{"a", "😀", "b"}},
		"bytes":                            {"añb", 2, byteLen, []string{"a", "ñ", "b"}},
		"combined":                         {"ab" + accent + accent, 3, runes, []string{"ab", accent, accent}},
		"joined":                           {"a" + family + "b", 5, runes, []string{"a", family, "b"}},
		"flags":                            {"a" + flag + flag, 3, runes, []string{"a" + flag, flag}},
		"a long grapheme":                  {family + "b", 3, runes, []string{"👨‍👩", "\u200d👧b"}},
		"a grapheme longer than the limit": {"😀😀", 1, utf16Units, []string{"😀", "😀"}},
		"a skin":                           {"ab👍🏽", 3, runes, []string{"ab", "👍🏽"}},
		"many marks on one letter": {strings.Repeat("x\u0301", 4), 3, runes,
			[]string{"x\u0301", "x\u0301", "x\u0301", "x\u0301"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want,
				texts(SplitText(c.text, Capabilities{MaxUnits: c.most, Units: c.units}, 0))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestSplitTextMakesOneChunkPerLineForASingleLinePlatform(t *testing.T) {
	got := texts(SplitText("one\r\n\n  two three four\n```go\nx\n```\n", Capabilities{MaxUnits: 8, Units: byteLen,
		SingleLine: true}, 0))
	want := []string{"one", "  two", "three", "four", "```go", "x", "```"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestTextHeadReturnsTheBeginningOfAnUnfinishedText(t *testing.T) {
	caps := Capabilities{MaxUnits: 20, Units: runes}
	for _, c := range [][2]string{
		{"", ""}, {" \n", ""}, {"one two ", "one two…"},
		{"```go\nfunc", "```go\nfunc\n```…"},
		{"one two three four five", "one two three four…"},
		{"12345678901234567890", "1234567890123456789…"},
	} {
		if got := TextHead(c[0], caps, "…"); got != c[1] {
			t.Errorf("head of %q: got %q, want %q", c[0], got, c[1])
		}
	}
}

// withoutFences removes white space and the marker lines of fences.
func withoutFences(text string) string {
	var kept []string
	for l := range strings.Lines(text) {
		if s := strings.TrimSpace(l); !strings.HasPrefix(s, "```") && !strings.HasPrefix(s, "~~~") {
			kept = append(kept, l)
		}
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, strings.Join(kept, ""))
}

func FuzzSplitText(f *testing.F) {
	f.Add("one two\n\n```go\nfunc main() {}\n\n```\nthree 👨‍👩‍👧 four\n- five\n- six", uint16(20), uint8(0), uint16(3))
	f.Add("````\n```\n~~~\n````\n```x`y\nz", uint16(12), uint8(1), uint16(0))
	f.Add("\r\n\r\ne\u0301\u0301\u0301\u0301🇩🇪🇩🇪 \t\n", uint16(2), uint8(2), uint16(9))
	f.Fuzz(func(t *testing.T, text string, most uint16, how uint8, from uint16) {
		if !utf8.ValidString(text) || len(text) > 4000 {
			return
		}
		caps := Capabilities{
			MaxUnits: int(most)%600 + 4, SingleLine: how >= 3,
			Units: []func(string) int{runes, byteLen, utf16Units}[how%3],
		}
		all := SplitText(text, caps, 0)
		sent, at := "", 0
		for i, p := range all {
			if !utf8.ValidString(p.Text) || strings.TrimSpace(p.Text) == "" {
				t.Fatalf("chunk %d is %q", i, p.Text)
			}
			if n := caps.Units(p.Text); n > caps.MaxUnits {
				t.Fatalf("chunk %d has %d units, more than %d: %q", i, n, caps.MaxUnits, p.Text)
			}
			if p.End <= at {
				t.Fatalf("chunk %d ends at %d, the previous one at %d", i, p.End, at)
			}
			if caps.SingleLine && strings.Contains(p.Text, "\n") {
				t.Fatalf("chunk %d is not one line: %q", i, p.Text)
			}
			checkChunk(t, text[at:p.End], p.Text, caps)
			at, sent = p.End, sent+p.Text
		}
		if strings.TrimSpace(text[at:]) != "" {
			t.Fatalf("no chunk contains %q", text[at:])
		}
		if len(all) > 0 { // a split resumes where it stopped
			i := int(from) % len(all)
			if diff := cmp.Diff(texts(all[i+1:]), texts(SplitText(text, caps, all[i].End))); diff != "" {
				t.Fatalf("after chunk %d: %s", i, diff)
			}
		}
		SplitText(text, caps, min(int(from), len(text)))
		if h := TextHead(text, caps, "…"); caps.Units(h) > caps.MaxUnits || !utf8.ValidString(h) {
			t.Fatalf("head %q", h)
		}
	})
}

// checkChunk checks that a chunk holds its part of the source and adds only fence markers.
func checkChunk(t *testing.T, source, sent string, caps Capabilities) {
	t.Helper()
	got := strings.TrimSpace(sent)
	if strings.Contains(strings.TrimSpace(source), got) {
		if withoutFences(source) != withoutFences(got) {
			t.Fatalf("%q is sent as %q", source, sent)
		}
		return
	}
	if caps.SingleLine {
		t.Fatalf("%q is sent as %q", source, sent)
	}
	if diff := cmp.Diff(withoutFences(source), withoutFences(got)); diff != "" {
		t.Fatalf("%q is sent as %q: %s", source, sent, diff)
	}
}
