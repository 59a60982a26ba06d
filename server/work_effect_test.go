package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mailroom"
	"mailroom/entry"
)

// TestAnEffectGoesOnUnderEachSpellingOfItsInput begins effects as a worker of one language, and goes on with another
// spelling of the input, or its digest, as a worker of another language.
func TestAnEffectGoesOnUnderEachSpellingOfItsInput(t *testing.T) {
	f := start(t)
	_, c := f.claimRemote()
	number := 0
	record := func(name, kind, input string) response {
		number++
		if input != "" {
			input = `,"input":` + input
		}
		a := f.callClaim(c.Claim, "entries", fmt.Sprintf(
			`{"number":%d,"effects":[{"kind":"effect.%s","body":{"name":%q%s}}]}`, number, kind, name, input))
		if a.status != 200 {
			number--
		}
		return a
	}
	digestOf := func(input string) string {
		d, err := entry.DigestInput(json.RawMessage(input))
		if err != nil {
			t.Fatal(err)
		}
		return `"` + d + `"`
	}
	for i, e := range []struct {
		first, then string
		equal       bool
	}{
		{`{"eur":5,"to":"ann"}`, `{"to":"\u0061nn","eur":5.0}`, true},
		{`{"eur":5,"to":"ann"}`, digestOf(`{ "to": "ann", "eur": 50e-1 }`), true},
		{digestOf(`[1,{"b":2,"a":1}]`), `[1,{"a":1,"b":2}]`, true},
		{`7`, `7.0`, true}, {`true`, `true`, true}, {`"of my own"`, `"of my own"`, true}, {``, ``, true}, {``, `null`, true},
		{`{"eur":5}`, `{"eur":6}`, false}, {`9007199254740993`, `9007199254740992`, false}, {`[1,2]`, `[2,1]`, false},
		{`7`, `"7"`, false}, {`"of my own"`, `"of my OWN"`, false}, {`{"eur":5}`, ``, false},
	} {
		name := fmt.Sprint("pay", i)
		if a := record(name, "intended", e.first); a.status != 200 {
			t.Fatalf("%s: %d %s", e.first, a.status, a.body)
		}
		a := record(name, "settled", e.then)
		if e.equal && a.status != 200 || !e.equal && a.status != 409 {
			t.Errorf("%s and then %s: %d %s", e.first, e.then, a.status, a.body)
		}
	}
	f.wantCode("a field twice", record("twice", "intended", `{"a":1,"a":2}`), 422, mailroom.CodeInvalid)
	f.wantCode("a number out of range", record("far", "intended", `1e99999999999`), 400, mailroom.CodeInvalid)
	large := record("large", "intended", `["`+strings.Repeat("x", mailroom.MaxEffect)+`"]`)
	f.wantCode("a large input", large, 413, mailroom.CodeTooLarge)
}

// TestAnEffectOfAnOlderVersionGoesOn repeats the string of an effect that an older server has recorded.
func TestAnEffectOfAnOlderVersionGoesOn(t *testing.T) {
	f := start(t)
	_, c := f.claimRemote()
	for number, kind := range []string{"intended", "settled"} {
		body := fmt.Sprintf(`{"number":%d,"effects":[{"kind":"effect.%s","body":{"name":"pay","input":"{\"a\": 1}"}}]}`,
			number+1, kind)
		if a := f.callClaim(c.Claim, "entries", body); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if a := f.call("GET /v1/claims/"+c.Claim+"/effects", ""); !strings.Contains(a.body, `"input":"{\"a\": 1}"`) {
		t.Errorf("the string has changed: %s", a.body)
	}
}
