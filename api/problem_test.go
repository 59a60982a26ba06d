package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"mailroom"
)

func TestCodesAndStatusesMapBothWays(t *testing.T) {
	for _, m := range mappings() {
		shared := []int{http.StatusConflict, http.StatusForbidden, http.StatusUnprocessableEntity} // of several codes
		if got := StatusOf(m.code); CodeOf(got) != m.code && !slices.Contains(shared, got) {
			t.Errorf("code %s has status %d, which maps to %s", m.code, got, CodeOf(got))
		}
		back := NewProblem(&mailroom.Error{Code: m.code, Message: "m"}).Err(0)
		if back.Code != m.code {
			t.Errorf("code %s is read back as %s", m.code, back.Code)
		}
	}
	for status, want := range map[int]mailroom.Code{418: mailroom.CodeInvalid, 502: mailroom.CodeUnavailable,
		599: mailroom.CodeInternal, 409: mailroom.CodeConflict} {
		if got := CodeOf(status); got != want {
			t.Errorf("status %d stands for %s, want %s", status, got, want)
		}
	}
	if p := NewProblem(&mailroom.Error{Code: "made_up", Message: "secret"}); p.Code != mailroom.CodeInternal ||
		strings.Contains(p.Detail, "secret") {
		t.Errorf("an unknown code became %+v", p)
	}
}

// FuzzProblem checks that an error survives the wire, except for values that are cut
// and internal errors, whose text is not disclosed.
func FuzzProblem(f *testing.F) {
	f.Add("invalid", "body.text: is empty", "body.text", "x")
	f.Add("internal", "the disk is on fire", "", "")
	f.Add("made_up", "\xff", "\x00", strings.Repeat("é", 101))
	f.Fuzz(func(t *testing.T, code, message, location, value string) {
		in := &mailroom.Error{Code: mailroom.Code(code), Message: message,
			Fields: []mailroom.Field{{Location: location, Message: message, Value: value}}}
		raw, err := json.Marshal(NewProblem(in))
		if err != nil {
			t.Fatal(err)
		}
		var p Problem
		if err := json.Unmarshal(raw, &p); err != nil {
			t.Fatal(err)
		}
		out := p.Err(0)
		if in.Code == mailroom.CodeInternal || !KnownCode(in.Code) {
			if out.Code != mailroom.CodeInternal || len(out.Fields) != 0 ||
				strings.Contains(string(raw), message) && len(message) > 20 {
				t.Errorf("%+v is encoded as %s", in, raw)
			}
			return
		}
		text := func(s string) string { return string([]rune(s)) }
		got, _ := out.Fields[0].Value.(string)
		if out.Code != in.Code || message != "" && out.Message != text(message) || out.Fields[0].Location != text(location) ||
			!strings.HasPrefix(strings.ToValidUTF8(value, "\uFFFD"), strings.TrimSuffix(got, "…")) ||
			len([]rune(got)) > MaxProblemValue+1 {
			t.Errorf("%+v is read back as %+v", in, out)
		}
	})
}
