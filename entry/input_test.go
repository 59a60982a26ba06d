package entry_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/digest"
)

func TestTheDigestOfAnInputIsThatOfItsCanonicalForm(t *testing.T) {
	raw, err := os.ReadFile("../internal/jsontext/testdata/canonical.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct{ Text, Digest string }
	if err := json.Unmarshal(raw, &rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if got, err := entry.DigestInput(json.RawMessage(r.Text)); got != r.Digest || err != nil {
			t.Errorf("%s: got %s, %v, want %s", r.Text, got, err, r.Digest)
		}
	}
	none, err := entry.DigestInput(nil)
	if null, _ := entry.DigestInput(json.RawMessage("null")); none != null || err != nil {
		t.Errorf("no input has the digest %s, null has %s, %v", none, null, err)
	}
}

func TestAnInputWithoutACanonicalFormIsRefused(t *testing.T) {
	for input, want := range map[string]string{
		`{"a":1,"a":2}`: `input: has the field "a" twice`, `{`: "input: is not valid JSON",
		strings.Repeat("[", 1001) + strings.Repeat("]", 1001): "input: is nested deeper than 1000",
	} {
		_, err := entry.NewEffect("r", mailroom.Effect{Name: "pay", Input: json.RawMessage(input)})
		if mailroom.CodeOf(err) != mailroom.CodeInvalid || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestAnEffectOfAnEarlierVersionIsKnownByItsInput(t *testing.T) {
	const spelled = `{"to": "a<b", "eur": 5.0}` // as a struct of Go, which does not sort
	old := &entry.EffectState{EffectEntry: entry.EffectEntry{Input: digest.Short(json.RawMessage(spelled))}}
	for input, want := range map[string]bool{
		spelled: true, `{"to":"a\u003cb","eur":5.0}`: true, `{"to":"a<b","eur":6}`: false, `null`: false,
	} {
		e := mailroom.Effect{Name: "pay", Input: json.RawMessage(input)}
		given, err := entry.NewEffect("r", e)
		if err != nil || old.BeganWith(e, given) != want {
			t.Errorf("%s: want %v, %v", input, want, err)
		}
		again := &entry.EffectState{EffectEntry: given}
		if !again.BeganWith(e, given) {
			t.Errorf("%s does not match itself", input)
		}
	}
}
