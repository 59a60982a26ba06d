package jsontext

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
)

const testDepth = 100

// TestEachSpellingHasTheCanonicalForm reads the table that the workers in Python and JavaScript are tested with too.
func TestEachSpellingHasTheCanonicalForm(t *testing.T) {
	raw, err := os.ReadFile("testdata/canonical.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct{ Text, Canonical string }
	if err := json.Unmarshal(raw, &rows); err != nil || len(rows) < 30 {
		t.Fatal(len(rows), err)
	}
	for _, r := range rows {
		if got, err := AppendCanonical(nil, []byte(r.Text), testDepth); string(got) != r.Canonical || err != nil {
			t.Errorf("%s: got %s, %v, want %s", r.Text, got, err, r.Canonical)
		}
	}
}

func TestDifferentValuesHaveDifferentForms(t *testing.T) {
	values := []string{"null", "0", `"0"`, "false", "[]", "{}", `""`, "1", "-1", "10", "1.5", "9007199254740992",
		"9007199254740993", "0.1", "0.10000000000000001", "[1,2]", "[2,1]", "[[1],2]", `{"a":1}`, `{"A":1}`, `{"a":"1"}`,
		`{"a":{"b":1}}`, `{"a":1,"b":null}`, `"a"`, `"a "`, `"é"`, `"e\u0301"`, "1e21", "1e22", "1e-7"}
	forms := map[string]string{}
	for _, v := range values {
		got, err := AppendCanonical(nil, []byte(v), testDepth)
		if other, same := forms[string(got)]; same || err != nil {
			t.Errorf("%s and %s are both %s, %v", other, v, got, err)
		}
		forms[string(got)] = v
	}
}

func TestWhatHasNoCanonicalFormIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		``: "is not valid JSON", `{"a":1`: "is not valid JSON", `[1,]`: "is not valid JSON", `01`: "is not valid JSON",
		`1 2`: "is not valid JSON", `{"a":tru}`: "is not valid JSON", `"a`: "is not valid JSON",
		`{"a":1,"b":2,"a":3}`: `has the field "a" twice`, `{"a":1,"a":2}`: `has the field "a" twice`,
		`{"x":[{"a":1,"\u0061":2}]}`: `has the field "a" twice`,
		`[1e99999999999]`:            "has a number with too large an exponent",
		strings.Repeat("[", testDepth+1) + strings.Repeat("]", testDepth+1): "is nested deeper than 100",
	} {
		if got, err := AppendCanonical(nil, []byte(text), testDepth); err == nil || err.Error() != want {
			t.Errorf("%s: got %s, %v, want %q", text, got, err, want)
		}
	}
	deep := strings.Repeat("[", testDepth) + strings.Repeat("]", testDepth)
	if got, err := AppendCanonical(nil, []byte(deep), testDepth); string(got) != deep || err != nil {
		t.Errorf("a value of the depth: %s, %v", got, err)
	}
}

// FuzzCanonical checks that another spelling of a value has the same canonical form, which is JSON and its own form.
func FuzzCanonical(f *testing.F) {
	for i, text := range []string{
		`{"b":1,"a":[1.50,-2e3,true,null],"é":"\n\u2028😀"}`, `[0.000001,1e21,12e-9,-0]`, `"\ud83d\ude00"`,
		`{"":{"z":{},"y":[[]]}}`, `123456789012345678901234567890.5`, `{"a":1,"a":1}`, `1e999999999999`} {
		f.Add([]byte(text), uint64(i))
	}
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		form, err := AppendCanonical(nil, text, testDepth)
		if err != nil {
			return
		}
		if !json.Valid(text) || !json.Valid(form) {
			t.Fatalf("%q has the form %q, which or whose source is no JSON", text, form)
		}
		spelled := (&speller{Scan(form), rand.New(rand.NewPCG(seed, 1))}).value()
		for _, same := range []string{string(form), spelled} {
			if again, err := AppendCanonical(nil, []byte(same), testDepth); string(again) != string(form) || err != nil {
				t.Fatalf("%q has the form %q, and %q has %q, %v", text, form, same, again, err)
			}
		}
	})
}

// speller writes a value in another way.
type speller struct {
	text   Scanner[[]byte]
	random *rand.Rand
}

func (s *speller) value() string {
	space := []string{"", " ", "\n\t"}[s.random.IntN(3)]
	switch first := s.text.Peek(); first {
	case '{':
		var members []string
		s.text.Open('{')
		for s.text.More('}') {
			members = append(members, s.string(string(s.text.Name()))+space+":"+s.value())
		}
		s.random.Shuffle(len(members), func(i, k int) { members[i], members[k] = members[k], members[i] })
		return "{" + space + strings.Join(members, space+",") + "}" + space
	case '[':
		var elements []string
		s.text.Open('[')
		for s.text.More(']') {
			elements = append(elements, s.value())
		}
		return "[" + strings.Join(elements, ","+space) + space + "]"
	case '"':
		return s.string(string(s.text.ReadString())) + space
	case 't', 'f', 'n':
		return space + string(s.text.Value(0))
	}
	return s.number(string(s.text.Value(0))) + space
}

func (s *speller) string(text string) string {
	if s.random.IntN(2) == 0 {
		return string(AppendString(nil, text))
	}
	var out strings.Builder
	out.WriteByte('"')
	for _, unit := range utf16.Encode([]rune(text)) {
		fmt.Fprintf(&out, `\u%04X`, unit)
	}
	return out.String() + `"`
}

func (s *speller) number(text string) string {
	mantissa, power, scaled := strings.Cut(text, "e")
	shift := s.random.IntN(7) - 3
	n, err := strconv.Atoi(power)
	if scaled && (err != nil || n > maxExponent-30 || n < -maxExponent+30) {
		return text
	}
	sign, digits := "", mantissa
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	zeros := strings.Repeat("0", 3)
	all := []byte(zeros + whole + fraction + zeros) // the point is three zeros and a shift further
	at := len(zeros) + len(whole) + shift
	all = slices.Insert(all, at, '.')
	spelled := strings.TrimLeft(string(all), "0")
	if strings.HasPrefix(spelled, ".") {
		spelled = "0" + spelled
	}
	return fmt.Sprintf("%s%sE%+d", sign, strings.TrimSuffix(spelled, "."), n-shift)
}
