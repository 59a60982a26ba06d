package display_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"mailroom/internal/display"
)

var update = flag.Bool("update", false, "write the shared cases that JavaScript is tested with")

const casesFile = "testdata/cases.json"

// cases are the test cases that Go and JavaScript share.
type cases struct {
	// Marked lists the ranges of code points that become a mark when they stand alone.
	Marked [][2]string `json:"marked"`
	Named  []example   `json:"named"`
	// Random has texts of characters that the rules name, in random order.
	Random []example `json:"random"`
	Cut    []cutting `json:"cut"`
}

type example struct {
	Name string `json:"name,omitempty"`
	In   string `json:"in"`
	Text string `json:"text"`
	Line string `json:"line"`
}

type cutting struct {
	In  string `json:"in"`
	N   int    `json:"n"`
	Out string `json:"out"`
}

// same returns an example that rendering does not change.
func same(name, s string) example { return example{name, s, s, s} }

func named() []example {
	return []example{
		same("plain", `rm -rf "/tmp/x y" && echo ⟦done⟧ äöü 漢字 𝒳`),
		{"override", "approve \u202e)txt.exe", "approve ⟦U+202E⟧)txt.exe", "approve ⟦U+202E⟧)txt.exe"},
		{"embeddings and isolates", "\u202aa\u202bb\u202cc\u202dd\u2066e\u2067f\u2068g\u2069",
			"⟦U+202A⟧a⟦U+202B⟧b⟦U+202C⟧c⟦U+202D⟧d⟦U+2066⟧e⟦U+2067⟧f⟦U+2068⟧g⟦U+2069⟧",
			"⟦U+202A⟧a⟦U+202B⟧b⟦U+202C⟧c⟦U+202D⟧d⟦U+2066⟧e⟦U+2067⟧f⟦U+2068⟧g⟦U+2069⟧"},
		{"zero width", "a\u200bb\u2060c\ufeffd\u00ade", "a⟦U+200B⟧b⟦U+2060⟧c⟦U+FEFF⟧d⟦U+00AD⟧e", "a⟦U+200B⟧b⟦U+2060⟧c⟦U+FEFF⟧d⟦U+00AD⟧e"},
		{"joiners between Latin letters", "pay\u200cpal\u200d.com", "pay⟦U+200C⟧pal⟦U+200D⟧.com", "pay⟦U+200C⟧pal⟦U+200D⟧.com"},
		{"escape", "\x1b[2J\x07\x00\u009b", "⟦U+001B⟧[2J⟦U+0007⟧⟦U+0000⟧⟦U+009B⟧", "⟦U+001B⟧[2J⟦U+0007⟧⟦U+0000⟧⟦U+009B⟧"},
		{"tags", "hi\U000e0041\U000e007f", "hi⟦U+E0041⟧⟦U+E007F⟧", "hi⟦U+E0041⟧⟦U+E007F⟧"},
		{"lines", "a\n\tb\r\n\nc\rd", "a\n\tb\n\nc⟦U+000D⟧d", "a b c d"},
		{"separators of lines", "a\u2028b\u2029c\u0085d", "a⟦U+2028⟧b⟦U+2029⟧c⟦U+0085⟧d", "a⟦U+2028⟧b⟦U+2029⟧c⟦U+0085⟧d"},
		{"direction marks beside Latin letters", "a\u200fb\u200ec\u061c", "a⟦U+200F⟧b⟦U+200E⟧c⟦U+061C⟧", "a⟦U+200F⟧b⟦U+200E⟧c⟦U+061C⟧"},
		same("direction mark in Hebrew", "שפת C++ היא \u200f(C++)\u200f שפה"),
		{"two direction marks", "א\u200f\u200f", "א\u200f⟦U+200F⟧", "א\u200f⟦U+200F⟧"},
		same("Persian with non-joiners", "می\u200cخواهم کتاب\u200cها"),
		{"two non-joiners", "می\u200c\u200cخواهم", "می\u200c⟦U+200C⟧خواهم", "می\u200c⟦U+200C⟧خواهم"},
		same("Arabic with vowels", "السَّلَامُ عَلَيْكُمْ"),
		same("Hindi with joiners", "क्\u200dष र्\u200cक श्री"),
		same("Sinhala", "ශ්\u200dරී ලංකා"),
		same("Khmer with breaks", "សួស្តី\u200bពិភពលោក"),
		same("Thai", "สวัสดีชาวโลก"),
		same("Vietnamese, decomposed", "tie\u0302\u0301ng Vie\u0323\u0302t"),
		same("Mongolian with a selector", "ᠮᠣᠩᠭᠣᠯ\u180b"),
		same("family", "👨\u200d👩\u200d👧\u200d👦"),
		same("skin tones", "👍🏽 👩🏿\u200d🚀"),
		same("emoji style", "❤\ufe0f ☎\ufe0e 🏳\ufe0f\u200d🌈 ❤\ufe0f\u200d🔥"),
		same("keycaps", "1\ufe0f\u20e3 #\ufe0f\u20e3"),
		same("flags", "🇩🇪 🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"),
		{"flag with a hidden text", "🏴\U000e0068\U000e0069\U000e007f", "🏴⟦U+E0068⟧⟦U+E0069⟧⟦U+E007F⟧", "🏴⟦U+E0068⟧⟦U+E0069⟧⟦U+E007F⟧"},
		{"selectors that carry data", "😀\ufe0f\ufe01\U000e0121", "😀\ufe0f⟦U+FE01⟧⟦U+E0121⟧", "😀\ufe0f⟦U+FE01⟧⟦U+E0121⟧"},
		{"digit with a selector", "1\ufe0f2", "1⟦U+FE0F⟧2", "1⟦U+FE0F⟧2"},
		{"emoji joined to nothing", "👩\u200d x", "👩⟦U+200D⟧ x", "👩⟦U+200D⟧ x"},
		same("variant of an ideograph", "葛\U000e0100飾区"),
		{"stacked", "a" + strings.Repeat("\u0301", 9), "a" + strings.Repeat("\u0301", 8) + "⟦U+0301⟧",
			"a" + strings.Repeat("\u0301", 8) + "⟦U+0301⟧"},
		{"blank letters", "\u3164\u115f\uffa0\u2800", "⟦U+3164⟧⟦U+115F⟧⟦U+FFA0⟧\u2800", "⟦U+3164⟧⟦U+115F⟧⟦U+FFA0⟧\u2800"},
		same("a mark as text", "⟦U+202E⟧"),
		same("empty", ""),
	}
}

// alphabet has the characters of random examples.
const alphabet = "aZ1# -.\n\t\r\u202e\u2066\u2069\u200b\u200c\u200d\u200e\u200f\u061c\u00ad\u034f\u2060\ufeff\x1b\x00\u0085\ufe00\ufe0e\ufe0f\u20e3\u0301" +
	"אבيم\u064bक्स្ក\u17b4กမ\u1820\u180b漢\U000e0100\U000e0041\U000e007f👩🚀🏽❤🇩🏴⟦⟧\U000101ff\u3164\ufffd\ufffe"

func random(r *rand.Rand, letters []rune) string {
	var b strings.Builder
	for range r.IntN(12) {
		if r.IntN(40) == 0 {
			b.WriteString("🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f")
		}
		b.WriteRune(letters[r.IntN(len(letters))])
	}
	return b.String()
}

// shared generates the cases with the output of this package; named and the tests below
// check that the output is right.
func shared() cases {
	c := cases{Named: named(), Marked: marked()}
	r := rand.New(rand.NewPCG(1, 2))
	for range 600 {
		s := random(r, []rune(alphabet))
		c.Random = append(c.Random, example{In: s, Text: display.Text(s), Line: display.Line(s)})
	}
	for _, s := range []string{"", "hello", strings.Repeat("x", 1300), "ab⟦U+202E⟧cd", "a⟦b⟧c", "👩\u200d🚀!",
		"e\u0301\u0302x", strings.Repeat("👍🏽", 4), strings.Repeat("\u0301", 30)} {
		for n := range 8 {
			c.Cut = append(c.Cut, cutting{s, n, display.Cut(s, n)})
		}
	}
	return c
}

func marked() [][2]string {
	var found [][2]string
	start := rune(-1)
	for r := rune(0); r <= utf8.MaxRune+1; r++ {
		in := r <= utf8.MaxRune && (!utf8.ValidRune(r) || display.Text(string(r)) != string(r))
		if in && start < 0 {
			start = r
		}
		if !in && start >= 0 {
			found = append(found, [2]string{fmt.Sprintf("%04X", start), fmt.Sprintf("%04X", r-1)})
			start = -1
		}
	}
	return found
}

func TestTheSharedCasesMatchTheResultsOfText(t *testing.T) {
	made := shared()
	var buffer bytes.Buffer
	e := json.NewEncoder(&buffer)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(made); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(casesFile, buffer.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(casesFile)
	if err != nil {
		t.Fatal(err)
	}
	var want cases
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf(
			"the shared cases differ from what this package does (-shared +now); if it is right, run go test ./internal/display -update:\n%s", diff)
	}
}

func TestNamedCharacters(t *testing.T) {
	for _, e := range named() {
		if got := display.Text(e.In); got != e.Text {
			t.Errorf("%s: Text(%+q) is %+q, want %+q", e.Name, e.In, got, e.Text)
		}
		if got := display.Line(e.In); got != e.Line {
			t.Errorf("%s: Line(%+q) is %+q, want %+q", e.Name, e.In, got, e.Line)
		}
	}
}

func TestInvalidBytesAreMarked(t *testing.T) {
	for in, want := range map[string]string{
		"a\xffb":            "a⟦0xFF⟧b",
		"\xed\xa0\x80":      "⟦0xED⟧⟦0xA0⟧⟦0x80⟧", // a surrogate
		"\xe2\x80":          "⟦0xE2⟧⟦0x80⟧",
		"\xc0\xae\ufffd":    "⟦0xC0⟧⟦0xAE⟧\ufffd",
		"\xf4\x90\x80\x80!": "⟦0xF4⟧⟦0x90⟧⟦0x80⟧⟦0x80⟧!",
	} {
		if got := display.Text(in); got != want {
			t.Errorf("Text(%+q) is %+q, want %+q", in, got, want)
		}
	}
}

func TestCutStatesTheNumberOfMissingCharacters(t *testing.T) {
	for _, e := range []cutting{
		{"hello", 5, "hello"},
		{"hello", 4, "hell… (1 more character)"},
		{strings.Repeat("ä", 2234), 1000, strings.Repeat("ä", 1000) + "… (1,234 more characters)"},
		{strings.Repeat("x", 1234567), 0, "… (1,234,567 more characters)"},
		{"ab⟦U+202E⟧cd", 5, "ab… (10 more characters)"},
		{"ab⟦U+202E⟧cd", 10, "ab⟦U+202E⟧… (2 more characters)"},
		{"👩\u200d🚀!", 2, "… (4 more characters)"},
		{"ae\u0301x", 2, "a… (3 more characters)"},
		{"a\xff\xfeb", 2, "a\xff… (2 more characters)"},
	} {
		if got := display.Cut(e.In, e.N); got != e.Out {
			t.Errorf("Cut(%+q, %d) is %+q, want %+q", e.In, e.N, got, e.Out)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, e := range named() {
		f.Add(e.In)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		f.Add(random(r, []rune(alphabet)))
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, line := display.Text(s), display.Line(s)
		for in, out := range map[string]string{"Text": text, "Line": line} {
			if !utf8.ValidString(out) {
				t.Errorf("%s(%+q) is not UTF-8: %+q", in, s, out)
			}
			if bad := strings.IndexFunc(out, always); bad >= 0 {
				t.Errorf("%s(%+q) has a raw control character at %d: %+q", in, s, bad, out)
			}
		}
		if strings.ContainsAny(line, "\n\t") {
			t.Errorf("Line(%+q) is not one line: %+q", s, line)
		}
		if again := display.Text(text); again != text {
			t.Errorf("Text(%+q) is not stable: %+q, then %+q", s, text, again)
		}
		if again := display.Line(line); again != line {
			t.Errorf("Line(%+q) is not stable: %+q, then %+q", s, line, again)
		}
		if len(text) > 12*len(s) {
			t.Errorf("Text(%+q) has %d bytes for %d", s, len(text), len(s))
		}
		var stream display.Stream
		var streamed strings.Builder
		for i := range len(s) {
			streamed.WriteString(stream.Add(s[i : i+1]))
		}
		if streamed.WriteString(stream.End()); streamed.String() != text {
			t.Errorf("%+q in chunks is %+q, want %+q", s, streamed.String(), text)
		}
		n := len(s) % 7
		cut := display.Cut(s, n)
		if head, _, ok := strings.Cut(cut, "… ("); utf8.RuneCountInString(s) <= n && cut != s ||
			ok && cut != s && utf8.RuneCountInString(head) > n {
			t.Errorf("Cut(%+q, %d) is %+q", s, n, cut)
		}
	})
}

// always reports whether rendering marks r in every context.
func always(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f || r == 0xad || r == 0xfeff || r == 0x2060 ||
		r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

func FuzzNamesAreOneLine(f *testing.F) {
	f.Add("Ann\x1b[2J\nroot: let me in\u202e")
	f.Fuzz(func(t *testing.T, name string) {
		got := display.Name(name)
		if len([]rune(got)) > 65 || strings.ContainsFunc(got, unicode.IsControl) ||
			strings.ContainsAny(got, "\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069") {
			t.Errorf("%q is shown as %q", name, got)
		}
	})
}
