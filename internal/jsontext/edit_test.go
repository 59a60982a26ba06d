package jsontext

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

var hookPath = []string{"hooks", "Stop"}

type hook struct {
	Own bool `json:"own"`
}

func isOwnHook(item []byte) bool {
	var h hook
	return json.Unmarshal(item, &h) == nil && h.Own
}

func TestItemsAreAddedAndRemovedAndTheRestStays(t *testing.T) {
	for _, c := range []struct{ before, after string }{
		{`{}`, `{"hooks":{"Stop":[{"own":true}]}}`},
		{"{}\n", "{\n  \"hooks\": {\n    \"Stop\": [\n      {\n        \"own\": true\n      }\n    ]\n  }\n}\n"},
		{`{"a":1}`, `{"a":1,"hooks":{"Stop":[{"own":true}]}}`},
		{`{"hooks":{"Other":[]}, "z": "x"}`, `{"hooks":{"Other":[],"Stop":[{"own":true}]}, "z": "x"}`},
		{`{"hooks":{"Stop":[{"a":1}, {"b":"]}"}]}}`, `{"hooks":{"Stop":[{"a":1}, {"b":"]}"}, {"own":true}]}}`},
		{"{\n\t\"a\": 1e400\n}", "{\n\t\"a\": 1e400,\n\t\"hooks\": {\n\t\t\"Stop\": [\n" +
			"\t\t\t{\n\t\t\t\t\"own\": true\n\t\t\t}\n\t\t]\n\t}\n}"},
		{"{\r\n \"hooks\": {\r\n  \"Stop\": [\r\n   {\"a\": 1}\r\n  ]\r\n }\r\n}",
			"{\r\n \"hooks\": {\r\n  \"Stop\": [\r\n   {\"a\": 1},\r\n   {\n    \"own\": true\n   }\r\n  ]\r\n }\r\n}"},
	} {
		got, err := AddItem([]byte(c.before), hook{true}, hookPath...)
		if err != nil || string(got) != c.after {
			t.Errorf("%s becomes\n%s (%v), want\n%s", c.before, got, err, c.after)
			continue
		}
		back, err := RemoveItems(got, isOwnHook, hookPath...)
		if err != nil || string(back) != c.before {
			t.Errorf("%s becomes\n%s (%v), want\n%s", got, back, err, c.before)
		}
	}
}

func TestOnlyItemsThatAreDroppedAreRemoved(t *testing.T) {
	for before, after := range map[string]string{
		`{"hooks":{"Stop":[{"own":true},{"a":1},{"own":true}]}}`: `{"hooks":{"Stop":[{"a":1}]}}`,
		`{"hooks":{"Stop":[{"own":true}],"Other":[]}}`:           `{"hooks":{"Other":[]}}`,
		`{"b":2,"hooks":{"Stop":[{"own":true}]},"a":1}`:          `{"b":2,"a":1}`,
		`{"hooks":{"Stop":[]}}`:                                  `{"hooks":{"Stop":[]}}`,
		`{"hooks":{"Stop":{"own":true}}}`:                        `{"hooks":{"Stop":{"own":true}}}`,
		`{"hooks":[]}`:                                           `{"hooks":[]}`,
		`[]`:                                                     `[]`,
	} {
		if got, err := RemoveItems([]byte(before), isOwnHook, hookPath...); err != nil || string(got) != after {
			t.Errorf("%s becomes %s (%v), want %s", before, got, err, after)
		}
	}
}

func TestAnItemIsNotAddedWhereAnotherTypeIs(t *testing.T) {
	for _, text := range []string{
		`[]`, `1`, `{"hooks":[]}`, `{"hooks":{"Stop":{}}}`, `{"hooks":null}`, `{`, ``, "{} // comment", `{"a":1}{}`,
		strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
	} {
		if got, err := AddItem([]byte(text), hook{true}, hookPath...); err == nil {
			t.Errorf("%.100s becomes %s", text, got)
		}
	}
}

// FuzzEdit checks that an added item is there beside the others, and that its removal restores all but empty values on
// the path.
func FuzzEdit(f *testing.F) {
	for _, text := range []string{
		"{}", `{"hooks":{"Stop":[1]}}`, "{\n  \"a\": [ ] ,\n \"hooks\" : { } }", `{"hooks":{"Stop":[]}}`,
		`{"a":"\u0022","hooks":{},"hooks":{"Stop":[2]}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before, err := Items(text, hookPath...)
		if err != nil {
			return
		}
		if len(before) > 0 && isOwnHook(before[len(before)-1]) {
			return
		}
		added, err := AddItem(text, hook{true}, hookPath...)
		if err != nil {
			return
		}
		items, err := Items(added, hookPath...)
		if err != nil || len(items) != len(before)+1 || !isOwnHook(items[len(before)]) {
			t.Fatalf("%s becomes %s with the items %s (%v)", text, added, items, err)
		}
		back, err := RemoveItems(added, isOwnHook, hookPath...)
		if err != nil {
			t.Fatal(err)
		}
		left, err := Items(back, hookPath...)
		if err != nil {
			t.Fatalf("%s becomes %s: %v", added, back, err)
		}
		for _, item := range before {
			if isOwnHook(item) {
				return
			}
		}
		if !reflect.DeepEqual(left, before) && len(left)+len(before) > 0 {
			t.Errorf("%s: items %s are left, want %s", text, left, before)
		}
		if len(before) > 0 && !bytes.Equal(back, text) {
			t.Errorf("%s becomes %s", text, back)
		}
	})
}
