package irc

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestNamesAreComparedWithTheCaseMapping(t *testing.T) {
	for mapping, want := range map[string]string{"ascii": "a[b]\\c^#x~", "rfc1459": "a{b}|c~#x~",
		"strict-rfc1459": "a{b}|c^#x~"} {
		if got := fold("A[B]\\C^#X~", mapping); got != want {
			t.Errorf("%s: %q, want %q", mapping, got, want)
		}
	}
}

func TestFormattingIsRemovedFromLines(t *testing.T) {
	for line, want := range map[string]string{
		"\x02bold\x02 \x0304,12red\x03 \x1ditalic\x0f": "bold red italic",
		"\x03" + "12 o'clock":                          "o'clock",
		"\x04ff0000hex":                                "hex",
		"caf\xe9":                                      "café",
		"café":                                         "café",
		"  a\tb\x07 ":                                  "a\tb",
	} {
		if got := plainText(line); got != want {
			t.Errorf("%q reads %q, want %q", line, got, want)
		}
	}
}

func TestALineThatBeginsWithTheNickIsAddressedToTheBot(t *testing.T) {
	for line, want := range map[string]string{
		"bot: do it": "do it", "Bot, do it": "do it", "BOT:do it": "do it", "@bot: do it": "do it", "bot: /stop": "/stop",
		"bot": "", "bot:": "",
	} {
		if got, ok := stripAddress(line, "bot", "ascii"); !ok || got != want {
			t.Errorf("%q: %q, %v, want %q", line, got, ok, want)
		}
	}
	for _, line := range []string{"", "bot is slow", "bots: hello", "bottle", "hello bot:", "bo: x"} {
		if got, ok := stripAddress(line, "bot", "ascii"); ok {
			t.Errorf("%q is parsed as %q", line, got)
		}
	}
}

func TestATextIsSplitIntoLines(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		room int
		want []string
	}{
		"one":               {"hello", 10, []string{"hello"}},
		"lines":             {"a\n\n  b \r\nc", 10, []string{"a", "  b", "c"}},
		"between words":     {"hello big world", 10, []string{"hello big", "world"}},
		"exactly":           {"0123456789 a", 10, []string{"0123456789", "a"}},
		"no words":          {"0123456789ab", 10, []string{"0123456789", "ab"}},
		"not in characters": {"ééééé", 5, []string{"éé", "éé", "é"}},
		"for no program":    {"\x01PING\x01", 10, []string{" \x01PING\x01"}},
		"no second command": {"a\r\nQUIT :b\x00", 100, []string{"a", "QUIT :b"}},
		"nothing":           {" \n ", 10, nil},
	} {
		if diff := cmp.Diff(c.want, splitLines(c.text, c.room)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// FuzzFit checks that lines fit, are valid UTF-8, and lose nothing but white space.
func FuzzFit(f *testing.F) {
	f.Add("hello big world", 64)
	f.Add("a\n\nb", 100)
	f.Add(strings.Repeat("é", 400), 65)
	f.Fuzz(func(t *testing.T, text string, room int) {
		if !utf8.ValidString(text) || room < minText || room > maxSentLine {
			return
		}
		lines := splitLines(text, room)
		for _, l := range lines {
			if len(l) > room || strings.ContainsAny(l, "\r\n\x00") || !utf8.ValidString(l) || strings.Trim(l, " \t") == "" ||
				l[0] == 1 {
				t.Errorf("%q with a limit of %d is split into %q", text, room, l)
			}
		}
		letters := func(s string) string {
			return strings.NewReplacer(" ", "", "\t", "", "\n", "", "\r", "", "\x00", "").Replace(s)
		}
		if got, want := letters(strings.Join(lines, "")), letters(text); got != want {
			t.Errorf("%q is sent as %q", text, lines)
		}
	})
}

// FuzzParse checks that any line yields a message with a command, or is rejected.
func FuzzParse(f *testing.F) {
	for _, line := range []string{
		"@a ", "@a", ":x", ": ", "@msgid=1;account=al :al!a@h PRIVMSG #c :hi", ":al PRIVMSG bot", "PING", "  ", "@=;;= : :",
		":a!b@c PRIVMSG : x", "PRIVMSG",
		":a!b@c PRIVMSG bot :\x01VERSION\x01", ":bot!b@c NICK", ":s 005 bot CASEMAPPING=ascii CHANTYPES= :x", ":s 311 a",
		":a!b@c KICK", ":s 396",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		m, ok := parseMessage(line)
		if !ok {
			return
		}
		if m.Command == "" {
			t.Errorf("%q has no command: %+v", line, m)
		}
		r := newRegistration(Options{Nick: "bot"}, Secrets{})
		_, _ = r.handle(m) // must not panic
		c := newTestConnection(t)
		e, err := c.handleMessage(m, c.connectedAt)
		if err == nil && e != nil && (e.Key == "" || e.User.ID == "" || e.Room.Chat == "" ||
			!utf8.ValidString(e.Text+e.User.ID+e.User.Name+e.Key)) {
			t.Errorf("%q is the event %+v", line, e)
		}
	})
}
