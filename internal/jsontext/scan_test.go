package jsontext

import (
	"encoding/json"
	"strings"
	"testing"
)

// texts are seeds for fuzzing.
var texts = [...]string{
	``, `{}`, `{"a":1}`, ` { "a" : [1, 2.5e-3, {"b": null}] , "é\n": "\ud83d\ude00" } `, `{"a":1,"a":2}`, `{"a":01}`,
	`{"a":-}`, `{"a":1,}`,
	`{,}`, `{"a"}`, `[1]`, `[1,]`, `[,]`, `[1 2]`, `[[[]]]`, `1`, `-0.0e+10`, `1E`, `.5`, `1.`, `tru`, `null`, `nulls`,
	`"x"`, `{"a":"\x"}`, "{\"a\":\"\x01\"}",
	`{}{}`, "{\"\xff\":1}", "\x00", `""`, `"plain enough to fill a word or two"`, `"a\"b\\c\/\b\f\n\r\t"`,
	`"\u00e9\u0000"`, `"\ud83d"`,
	`"\ud83d\u0041"`, `"\ude00\ud83d"`, `"\ud83dx\n"`, "\"é\xff\\n\"", "\"1234567\x7f\"", `"12345678\"`, "\"1234567\x1f\"",
	`"café"`, `"\u00`,
}

// FuzzScanner checks that a scanner accepts the same texts as encoding/json, as a string and as
// bytes.
func FuzzScanner(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		const depth = 9_999 // the limit of encoding/json
		s := Scan(string(text))
		s.Peek()
		s.Value(depth)
		b := Scan(text)
		b.Peek()
		b.Value(depth)
		if want := json.Valid(text); s.AtEnd() != want || b.AtEnd() != want {
			t.Errorf("%q: valid as string %v, as bytes %v, want %v", text, s.AtEnd(), b.AtEnd(), want)
		}
	})
}

// FuzzTexts checks that strings are decoded as in encoding/json.
func FuzzTexts(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var want string
		fits := json.Unmarshal(text, &want) == nil && len(text) > 0 && text[0] == '"' && text[len(text)-1] == '"'
		s := Scan(string(text))
		got := s.ReadString()
		if ok := !s.Failed() && s.Offset() == len(text); ok != fits || got != want && fits {
			t.Errorf("%q is decoded as %q, %v, want %q, %v", text, got, ok, want, fits)
		}
	})
}

func TestNestingIsBounded(t *testing.T) {
	for _, open := range []string{"[", `{"a":`} {
		end := string(open[0] + 2) // the closing bracket
		for depth := range 4 {
			s := Scan(strings.Repeat(open, depth) + "1" + strings.Repeat(end, depth))
			s.Value(2)
			if s.Failed() != (depth > 2) {
				t.Errorf("%s nested %d deep: failed %v", open, depth, s.Failed())
			}
		}
	}
}

func TestReadsAfterAnErrorReturnNothing(t *testing.T) {
	s := Scan(`{"a":tru,"b":1}`)
	s.Open('{')
	for s.More('}') {
		s.Name()
		s.Value(1)
	}
	s.Open('[')
	if s.More(']') || s.Name() != "" || s.Value(1) != "" || s.Peek() != 0 || !s.Failed() || s.AtEnd() {
		t.Error("the scanner continued after an error")
	}
}

func TestScanningAllocatesNothing(t *testing.T) {
	text := []byte(`{"a":[1,-2.5e3,{"é":"\u0041"}],"b":"long enough for a word"}`)
	if n := testing.AllocsPerRun(10, func() {
		s := Scan(text)
		s.Value(3)
		if !s.AtEnd() {
			t.Error("not valid")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
