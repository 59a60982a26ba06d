package telegram

import (
	"html"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"mailroom/channel/markdown"
	"mailroom/channel/platformtest"
	"mailroom/channel/telegram/telegramtest"
)

func TestRenderMarkdown(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                           "plain",
		"a < b && c > d":                  "a &lt; b &amp;&amp; c &gt; d",
		"**bold** and *it* and __b__ _i":  "<b>bold</b> and <i>it</i> and <b>b</b> _i",
		"***both***":                      "<b><i>both</i></b>",
		"**a *b* c**":                     "<b>a <i>b</i> c</b>",
		"~~gone~~ ~1":                     "<s>gone</s> ~1",
		"snake_case_name 2*3*4 a*b":       "snake_case_name 2<i>3</i>4 a*b",
		"5 * 3 * 2":                       "5 * 3 * 2",
		"`a<b` and ``x`y``":               "<code>a&lt;b</code> and <code>x`y</code>",
		"**not `**` yet**":                "<b>not <code>**</code> yet</b>",
		`\*no\* \`:                        `*no* \`,
		"[a *b*](https://x.org/?a=1&b=2)": `<a href="https://x.org/?a=1&amp;b=2">a <i>b</i></a>`,
		"[x](javascript:alert)":           "[x](javascript:alert)",
		"[wiki](https://x.org/a_(b))":     `<a href="https://x.org/a_(b)">wiki</a>`,
		"![pic](https://x.org/p.png)":     `<a href="https://x.org/p.png">pic</a>`,
		"# Head **x** #\ntext":            "<b>Head x</b>\ntext",
		"#nohead":                         "#nohead",
		"- a\n  * b\n+ c":                 "• a\n  • b\n• c",
		"1. a\n2. b":                      "1. a\n2. b",
		"> said\n> *so*\n\nno":            "<blockquote>said\n<i>so</i></blockquote>\n\nno",
		"a\n---\nb":                       "a\n———\nb",
		"```go\nif a < b {\n```\nx":       "<pre><code class=\"language-go\">if a &lt; b {</code></pre>\nx",
		"~~~\n```\n~~~":                   "<pre>```</pre>",
		"```\nopen":                       "<pre>open</pre>",
		"| a | b |\n|---|---|\n| 1 | 2 |": "<pre>| a | b |\n|---|---|\n| 1 | 2 |</pre>",
		"<b>tags</b> are text":            "&lt;b&gt;tags&lt;/b&gt; are text",
		"**unclosed":                      "**unclosed",
		"":                                "",
		"```\n```":                        "",
	} {
		if got := render(in); got != want {
			t.Errorf("%q\n is %s\nwant %s", in, got, want)
		}
	}
}

var written = regexp.MustCompile(`<[^>]*>`)

// FuzzRender checks that Telegram accepts the HTML, and that its text is not longer than the
// input and keeps each letter and digit.
func FuzzRender(f *testing.F) {
	for _, s := range []string{
		"**a** _b_ `c` [d](https://e.f) \\* ![x](tg://y)", "```go x\na\n```\n> q\n# h\n- i\n|a|\n|-|\n",
		"***a** b* ~~c~~ __d_ e_", "&lt; <a href=x>", "é👋**é👋**",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		in = strings.ToValidUTF8(in, "?")
		html := render(in)
		text, problem := telegramtest.PlainText(html)
		if problem != "" {
			t.Fatalf("%q is rendered as %q: %s", in, html, problem)
		}
		if html == "" {
			return // sent as plain text
		}
		if utf16Units(text) > utf16Units(in) {
			t.Errorf("%q has %d units, rendered as %q it has %d", in, utf16Units(in), text, utf16Units(text))
		}
		for _, m := range written.FindAllString(html, -1) {
			for _, attribute := range []string{`href="`, `class="language-`} {
				if _, value, ok := strings.Cut(m, attribute); ok {
					value, _, _ = strings.Cut(value, `"`)
					text += strings.ReplaceAll(strings.ReplaceAll(value, "&amp;", "&"), "&quot;", `"`)
				}
			}
		}
		count := func(s string) map[rune]int {
			n := map[rune]int{}
			for _, r := range s {
				if unicode.IsLetter(r) || unicode.IsDigit(r) {
					n[r]++
				}
			}
			return n
		}
		is := count(text)
		for r, n := range count(in) {
			if is[r] != n {
				t.Errorf("%q has %q %d times, and %q has it %d times", in, r, n, html, is[r])
			}
			delete(is, r)
		}
		if len(is) > 0 {
			t.Errorf("%q is rendered as %q with additional characters: %v", in, html, is)
		}
	})
}

// FuzzUpdate checks that parsing never panics, and that each event has a key, a room and a
// user.
func FuzzUpdate(f *testing.F) {
	f.Add(
		`{"update_id":1,"message":{"message_id":2,"from":{"id":3,"first_name":"A"},"chat":{"id":3,"type":"private"},"text":"/a@b 👋","entities":[{"type":"bot_command","offset":0,"length":4}]}}`)
	f.Add(
		`{"update_id":1,"edited_message":{"message_id":2,"sender_chat":{"id":-3},"chat":{"id":3,"type":"group"},"caption":"👋@b","caption_entities":[{"type":"mention","offset":2,"length":2}],"photo":[{"file_id":"x"}]}}`)
	f.Add(
		`{"update_id":1,"callback_query":{"id":"4","from":{"id":3},"message":{"message_id":2,"chat":{"id":3,"type":"supergroup"}},"data":"x"}}`)
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := parseUpdate([]byte(raw))
		if err != nil {
			return
		}
		e, ok := u.toEvent(account{ID: 9, Username: "b"})
		if ok && (e.Key == "" || e.Room.Chat == "" || e.User.ID == "" || e.Position == "") {
			t.Errorf("%s is %+v", raw, e)
		}
	})
}

func TestTextOffsetsAreUTF16Units(t *testing.T) {
	for _, c := range []struct {
		offset, length int
		want           string
		ok             bool
	}{
		{0, 1, "a", true}, {1, 2, "👋", true}, {3, 1, "é", true}, {3, 2, "éz", true}, {2, 1, "", false}, {1, 1, "", false},
		{4, 2, "", false}, {0, 0, "", false}, {-1, 2, "", false},
	} {
		if got, ok := utf16Slice("a👋éz", c.offset, c.length); got != c.want || ok != c.ok {
			t.Errorf("%d, %d: %q, %t", c.offset, c.length, got, ok)
		}
	}
	if n := utf16Units("a👋éz"); n != 5 {
		t.Errorf("%d units", n)
	}
}

func TestAFencedTextHasNoMarkup(t *testing.T) {
	for _, text := range platformtest.HostileTexts() {
		fenced := markdown.Fence(text)
		inside, ok := strings.CutPrefix(render(fenced), "<pre>")
		inside, closed := strings.CutSuffix(inside, "</pre>")
		if !ok || !closed || strings.ContainsAny(inside, "<>") || "```\n"+html.UnescapeString(inside)+"\n```" != fenced {
			t.Errorf("%q is %q", text, inside)
		}
	}
}

func TestQuotationsAreMarkedLineByLine(t *testing.T) {
	for _, c := range []struct {
		text     string
		entities []entity
		want     string
	}{
		{"a", nil, "a"},
		{"👋 a\nb\nc", []entity{{Type: "blockquote", Offset: 0, Length: 6}}, "> 👋 a\n> b\nc"},
		{"x\n👋\ny\n/stop", []entity{{Type: "blockquote", Offset: 2, Length: 2},
			{Type: "expandable_blockquote", Offset: 7, Length: 5}}, "x\n> 👋\ny\n> /stop"},
		{"abc", []entity{{Type: "blockquote", Offset: 1, Length: 9}, {Type: "blockquote", Offset: -1, Length: 1}}, "abc"},
		{"/stop@b\nno", []entity{{Type: "bot_command", Offset: 0, Length: 7}, {Type: "blockquote", Offset: 8, Length: 2}}, "/stop@b\n> no"},
	} {
		if got := markQuotes(c.text, c.entities); got != c.want {
			t.Errorf("%q is %q, want %q", c.text, got, c.want)
		}
		m := message{Chat: chatInfo{ID: 1, Type: "private"}, From: &user{ID: 2}, Text: c.text, Entities: c.entities}
		if e, _ := m.messageEvent(account{ID: 9, Username: "b"}); e.Text != strings.Replace(c.want, "@b", "", 1) {
			t.Errorf("%q is the event %q", c.text, e.Text)
		}
	}
}
