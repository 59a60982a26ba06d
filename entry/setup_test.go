package entry_test

import (
	"encoding/json"
	"testing"

	"mailroom"
	"mailroom/entry"
)

func TestTheSetUpOfATreeIsOneLine(t *testing.T) {
	for _, test := range []struct{ body, want string }{
		{`{"number":1,"of":2,"command":"npm ci","duration_ms":3}`, "set-up 1 of 2: npm ci"},
		{`{"number":2,"of":2,"command":"npm ci","again":true,"failure":"exit status 1","later":1}`,
			"set-up 2 of 2: npm ci, from its start again because it was cut; failed: exit status 1"},
		{`{"number":0,"of":0,"command":"","skipped":"x is not trusted"}`, "set-up skipped: x is not trusted"},
		{`{"number":1}`, ""}, {`{"command":7}`, ""}, {`[]`, ""},
	} {
		got := ""
		if s := entry.SetupOf(mailroom.Entry{Kind: entry.KindSetup, Body: json.RawMessage(test.body)}); s != nil {
			got = s.Summary()
		}
		if got != test.want {
			t.Errorf("%s is %q, want %q", test.body, got, test.want)
		}
	}
}
