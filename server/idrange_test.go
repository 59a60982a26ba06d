package server_test

import (
	"net/url"
	"testing"

	"mailroom"
	"mailroom/api"
)

// The lists scan a bounded number of rows, the newest first, so that a row behind many others is found only by the
// range of its id.
func TestTheBeginningOfAnIDIsFoundBehindALongHistory(t *testing.T) {
	f := start(t)
	sent := f.submit("aaaaaaaa-1", "deploy it")
	ask := mailroom.Ask{Name: "q", Kind: mailroom.TicketApproval, Prompt: "Deploy?", Action: "deploy"}
	f.park(f.claim(), ask)
	ticket := mustCall[api.Page[api.Ticket]](f, "GET /v1/tickets", "").Items[0].ID
	f.addFailedRuns("bbbbbb", 2500)
	f.addFailedRuns("cccccc", 3)
	find := func(list, q string) string {
		t.Helper()
		got := mustCall[api.Page[struct{ ID string }]](f, "GET /v1/"+list+"?limit=2&q="+url.QueryEscape(q), "")
		text := ""
		for _, item := range got.Items {
			text += " " + item.ID
		}
		if got.Next != nil {
			text += " …"
		}
		return text
	}
	for _, c := range []struct{ list, q, want string }{
		{"runs", "id:" + sent.Run[:10] + "*", " " + sent.Run},
		{"runs", "id:" + sent.Run, " " + sent.Run},
		{"runs", "id:" + sent.Run[:10] + "* status:failed", ""},
		{"runs", "id:cccccc*", " cccccc-2 cccccc-1 …"},
		{"runs", "id:bbbbbb-24*", " bbbbbb-2499 bbbbbb-2498 …"},
		{"runs", "id:bbbbbb*", " bbbbbb-2499 bbbbbb-2498 …"}, // more than one page of rows: read as without the range
		{"runs", "id:" + sent.Run[:5] + "*", " …"},           // too short
		{"runs", "-id:cccccc*", " bbbbbb-2499 bbbbbb-2498 …"},
		{"threads", "id:aaaaaaaa*", " aaaaaaaa-1"},
		{"threads", "id:zzzzzz*", ""},
		{"tickets", "id:" + ticket[:8] + "*", " " + ticket},
		{"tickets", "id:" + ticket, " " + ticket},
		{"tickets", "id:none", ""},
	} {
		if got := find(c.list, c.q); got != c.want {
			t.Errorf("%s %s: got%s, want%s", c.list, c.q, got, c.want)
		}
	}
	made := mustCall[api.CreatedToken](f, "POST /v1/tokens", `{"name":"ann","scopes":["read"]}`)
	f.secret = made.Secret
	for _, list := range []string{"runs", "threads", "tickets"} {
		for _, prefix := range []string{sent.Run[:10], "aaaaaaaa", ticket[:8]} {
			if got := find(list, "id:"+prefix+"*"); got != "" {
				t.Errorf("another owner sees%s", got)
			}
		}
	}
}
