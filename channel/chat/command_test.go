package chat

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseText(t *testing.T) {
	for text, want := range map[string]ParsedText{
		"hello":                 {Text: "hello"},
		"":                      {},
		"/":                     {Text: "/"},
		"/stop":                 {Text: "/stop", Command: "stop"},
		" !STOP now ":           {Text: " !STOP now ", Command: "stop", Rest: "now"},
		"/queue  a\nb ":         {Text: "/queue  a\nb ", Command: "queue", Rest: "a\nb"},
		"/stop@Bot":             {Text: "/stop@Bot", Command: "stop", NamesBot: true},
		"/stop@other":           {Text: "/stop@other", ForOtherBot: true},
		"/foo@other":            {Text: "/foo@other", ForOtherBot: true},
		"/home@2x/a":            {Text: "/home@2x/a", ForOtherBot: true},
		"@bot /stop":            {Text: "/stop", Command: "stop", NamesBot: true},
		"bot: hello":            {Text: "hello", NamesBot: true},
		"BOT,hello":             {Text: "hello", NamesBot: true},
		"@bot":                  {NamesBot: true},
		"bot":                   {Text: "bot"},
		"bot is nice":           {Text: "bot is nice"},
		"botany: a":             {Text: "botany: a"},
		"@botany a":             {Text: "@botany a"},
		"/aprove":               {Text: "/aprove", Suggestion: "approve"},
		"!aprove":               {Text: "!aprove"},
		"/usr/bin/env":          {Text: "/usr/bin/env"},
		"/compact":              {Text: "/compact"},
		"a /stop":               {Text: "a /stop"},
		"/approve 1234abcd why": {Text: "/approve 1234abcd why", Command: "approve", Rest: "1234abcd why"},
		"!important":            {Text: "!important"},
	} {
		if diff := cmp.Diff(want, ParseText(text, "bot")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	if p := ParseText("@ hello", ""); p.NamesBot || p.Text != "@ hello" {
		t.Errorf("for a bot without a name: %+v", p)
	}
}

func FuzzParseText(f *testing.F) {
	for _, text := range []string{"/stop", "@bot: /deny 12345678 no", "!new@bot", "bot,", "/\x00", "\u00a0/İ@BOT"} {
		f.Add(text, "bot")
	}
	f.Fuzz(func(t *testing.T, text, bot string) {
		p := ParseText(text, bot)
		if !strings.HasSuffix(text, p.Text) || p.Command != "" && (p.ForOtherBot || p.Suggestion != "") ||
			!strings.Contains(text, p.Rest) {
			t.Errorf("%q for %q: %+v", text, bot, p)
		}
	})
}
