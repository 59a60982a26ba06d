package entry_test

import (
	"encoding/json"
	"testing"

	"mailroom"
	"mailroom/entry"
)

func TestTheBranchOfATreeIsOneLine(t *testing.T) {
	for _, test := range []struct{ body, want string }{
		{`{"branch":"b"}`, "0 commits"},
		{`{"branch":"b","commits":1,"head":"0123456789abcdef","pushed":"origin","pull_request":"https://x/1"}`,
			"1 commit, at 0123456789ab, pushed to origin, https://x/1"},
		{`{"branch":"b","commits":2,"unpushed":"no login","left":"the disk is full","pointers":"x","later":1}`,
			"2 commits; not pushed: no login; changes are left in the worktree: the disk is full; " +
				"files without their content: x"},
		{`{"commits":2}`, ""}, {`{"branch":7}`, ""}, {`[]`, ""},
	} {
		got := ""
		if made := entry.TreeOf(mailroom.Entry{Kind: entry.KindTree, Body: json.RawMessage(test.body)}); made != nil {
			got = made.Summary()
		}
		if got != test.want {
			t.Errorf("%s is %q, want %q", test.body, got, test.want)
		}
	}
}
