package store

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestWords(t *testing.T) {
	long := strings.Repeat("x", MaxWord)
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{" \t\n…!", nil},
		{"Hello, hello WORLD", []string{"hello", "world"}},
		{"don't re-run run_42 v1.2", []string{"don", "t", "re", "run", "42", "v1", "2"}},
		{"Größe ÉTÉ Ωmega Дом", []string{"größe", "été", "ωmega", "дом"}},
		{"e\u0301te\u0301 \u0301x", []string{"e\u0301te\u0301", "x"}}, // marks combine with a letter
		{"हिन्दी", []string{"हिन्दी"}},
		{"1\ufe0f\u20e3 ok", []string{"1", "ok"}}, // a keycap
		{"漢字とカナ", []string{"漢", "字", "と", "カ", "ナ"}},
		{"go言語go", []string{"go", "言", "語"}},
		{"한국어", []string{"한", "국", "어"}},
		{"ภาษาไทย", []string{"ภ", "า", "ษ", "ไ", "ท", "ย"}},
		{"ភាសាខ្មែរ", []string{"ភ", "ស", "ខ", "ម", "រ"}},
		{"x\ue000oy\x00z\xffq", []string{"x", "oy", "z", "q"}},
		{long + "yz " + long, []string{long}},
		{strings.Repeat("x", MaxWord-1) + "éz", []string{strings.Repeat("x", MaxWord-1)}}, // not in the middle of a rune
		{strings.Repeat(" ", MaxIndexed-1) + "ab", []string{"a"}},
		{strings.Repeat(" ", MaxIndexed-1) + "é", nil},
	} {
		if diff := cmp.Diff(c.want, Words(c.text)); diff != "" {
			t.Errorf("%.60q (-want +got):\n%s", c.text, diff)
		}
	}
	var text strings.Builder
	for i := range MaxWords + 10 {
		fmt.Fprintf(&text, "w%d ", i)
	}
	if words := Words(text.String()); len(words) != MaxWords || words[MaxWords-1] != fmt.Sprint("w", MaxWords-1) {
		t.Errorf("%d words, want the first %d", len(words), MaxWords)
	}
}

func TestNoTextHasTheHiddenWords(t *testing.T) {
	words := []string{OwnerWord("a"), OwnerWord("b"), ThreadWord("a"), ThreadWord("b"), OwnerWord("")}
	seen := map[string]bool{}
	for _, w := range words {
		if seen[w] || len(w) > MaxWord {
			t.Errorf("%q is not distinct, or longer than a word", w)
		}
		seen[w] = true
		for _, of := range Words("a " + w + " b") {
			if of == w {
				t.Errorf("a text has the word %q", w)
			}
		}
	}
	if OwnerWord("a") != words[0] {
		t.Error("the word of an owner changes")
	}
}

// FuzzWords checks what the indexes of both databases rely on.
func FuzzWords(f *testing.F) {
	for _, text := range []string{"Hello world", "漢字 kana", "e\u0301", "İstanbul ǅ ẞ", "\xff\x00",
		strings.Repeat("é", 30)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words := Words(text)
		if len(words) > MaxWords {
			t.Errorf("%d words", len(words))
		}
		seen := map[string]bool{}
		for _, w := range words {
			if w == "" || len(w) > MaxWord || !utf8.ValidString(w) || seen[w] {
				t.Errorf("%q is empty, too long, not UTF-8 or repeats", w)
			}
			seen[w] = true
			for _, c := range w {
				if unicode.ToLower(c) != c || !unicode.In(c, unicode.L, unicode.Nd, unicode.Mn, unicode.Mc) {
					t.Errorf("%q has %q, which is no letter, digit or mark in lower case", w, c)
				}
			}
			if again := Words(w); len(again) != 1 || again[0] != w {
				t.Errorf("the words of %q are %q", w, again)
			}
		}
	})
}
