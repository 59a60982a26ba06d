package server_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server"
	"mailroom/server/operate"
)

// theirThings are what ann has in one of two worlds: objects of every kind that a name or an id reaches.
func theirThings(t *testing.T, f *fixture, ann *fixture) map[string]string {
	t.Helper()
	things := ann.addReservation(ann.makeObjects("theirs")) // this also makes the project "theirs"
	mustCall[api.Notified](ann, "POST /v1/notifications", `{"project":"theirs","from":"x","event":"e","to":["y"]}`)
	mustCall[api.AlertRule](ann, "POST /v1/alerts/rules", `{"name":"hers","when":["ticket"],"to":["hers"]}`)
	made := mustCall[api.CreatedToken](ann, "POST /v1/tokens/limited", `{"scopes":["read"],"expires_at":"`+inAnHour()+`"}`)
	things["name"], things["rule"] = made.Token.Name, "hers"
	// The quotas of ann and of her thread are used up, so an error about a quota would disclose her data.
	if _, err := f.client.Accounts().SetQuotas(t.Context(), "ann",
		auth.Quotas{auth.QuotaThreads: 1, auth.QuotaBytes: 1, auth.QuotaNotifications: 1}); err != nil {
		t.Fatal(err)
	}
	return things
}

// byName are requests that name things of ann elsewhere than in a path.
func byName() map[string]string {
	all := map[string]string{
		"GET /v1/reservations?project=theirs": "", "GET /v1/notifications?project=theirs&agent=y": "",
		"GET /v1/notifications?project=theirs&agent=new": "",
		"GET /v1/search?q=one&thread=theirs":             "", "GET /v1/threads/alert:hers": "",
		"GET /v1/threads/project:theirs/entries": "",
		"DELETE /v1/threads/project:theirs":      "", "PATCH /v1/threads/project:theirs": `{"metadata":{}}`,
	}
	for _, body := range []string{
		`{"project":"theirs","agent":"y","seqs":[1]}`, `{"project":"theirs","agent":"y","seqs":[2]}`,
		`{"project":"theirs","agent":"new","seqs":[2,1]}`,
	} {
		all["POST /v1/notifications/acknowledge "+body] = body
	}
	for _, body := range []string{
		`{"text":"x","notify":"hers"}`, `{"text":"x","parent":"{run}"}`, `{"thread":"alert:hers","text":"x"}`,
		`{"thread":"alert:hers:ann","text":"x"}`,
		`{"thread":"project:theirs","text":"x"}`,
		`{"thread":"channel:shop","text":"x"}`, `{"thread":"mine","decisions":[{"ticket":"{ticket}","decision":"deny"}]}`,
		`{"thread":"mine","text":"x","expect_run":"{run}"}`,
	} {
		all["POST /v1/messages "+body] = body
	}
	for _, to := range []string{"alert:hers", "alert:hers:ann", "project:theirs", "out:shop:x:1"} {
		all["PATCH /v1/threads/mine "+to] = fmt.Sprintf(`{"deliver_to":%q}`, to)
	}
	all["POST /v1/alerts/rules"] = `{"name":"mine","when":["ticket"],"to":["hers"]}`
	all["POST /v1/tokens/limited"] = `{"scopes":["read"],"run":"{run}","expires_at":"` + inAnHour() + `"}`
	all["POST /v1/reservations/release"] = `{"project":"theirs","names":["a"],"holder":"x"}`
	return all
}

// TestNoAnswerRevealsRowsOfOthers sends the same requests to two servers. On one of them ann has threads, runs,
// tickets, a project, a rule, a target and tokens, on the other nothing: eve gets the same answers, also where ann is
// out of quota.
func TestNoAnswerRevealsRowsOfOthers(t *testing.T) {
	// Names of threads and projects are unique, so who asks for one of another's is refused and not given an own one:
	// as a thread that does not exist, and with no word about its owner.
	creates := map[string]string{
		"POST /v1/messages": `{"thread":"theirs","text":"x"}`, "POST /v1/threads/theirs/messages": `{"text":"x"}`,
		"POST /v1/reservations":       `{"project":"theirs","names":["a"],"holder":"x"}`,
		"POST /v1/notifications":      `{"project":"theirs","from":"y","event":"e"}`,
		"POST /v1/notifications/take": `{"project":"theirs","agent":"y"}`,
		"PATCH /v1/threads/mine":      `{"deliver_to":"theirs"}`,
	}
	var worlds [2]*fixture
	var things map[string]string
	for i := range worlds {
		targets := []operate.Target{{Name: "hers", Kind: "exec", Tokens: []string{"ann"}}}
		f := start(t, func(o *server.Options) {
			o.Parts.Alerts = &operate.Alerts{Targets: targets[:i]}
		})
		ann := f.withToken(f.createToken("ann", "", scopesWithout("")...))
		if i == 1 {
			things = theirThings(t, f, ann)
		}
		worlds[i] = f.withToken(f.createToken("eve", "", scopesWithout("")...))
		worlds[i].submit("mine", "x")
	}
	requests := byName()
	for route, a := range accessRules() {
		if a.need != auth.PermissionAdmin && !a.makes && strings.Contains(route+a.body, "{") && (a.need != "" || a.token) {
			requests[route] = a.body
		}
	}
	for _, route := range slices.Sorted(maps.Keys(requests)) {
		method, rest, _ := strings.Cut(fillIDs(route, things), " ")
		path, _, _ := strings.Cut(rest, " ")
		if _, ok := creates[method+" "+path]; ok && requests[route] == accessRules()[route].body {
			continue
		}
		body := fillIDs(requests[route], things)
		without, with := worlds[0].call(method+" "+path, body), worlds[1].call(method+" "+path, body)
		if strings.Contains(path, "/tokens/limited") || strings.Contains(path, "/links") ||
			without.status < 300 && strings.Contains(path, "/messages") {
			without.body, with.body = "", "" // a new secret or run
		}
		if without.status != with.status || without.body != with.body {
			t.Errorf("%s %s: %d %s without, %d %s with the things of ann", route, body, without.status, without.body,
				with.status, with.body)
		}
	}
	before := worlds[1].snapshot()
	for route, body := range creates {
		got := worlds[1].call(route, body)
		if worlds[1].wantCode(route, got, 404, mailroom.CodeNotFound); strings.Contains(got.body, "ann") {
			t.Errorf("%s: %s names the owner", route, got.body)
		}
	}
	if after := worlds[1].snapshot(); after != before {
		t.Errorf("refused requests changed\n%s to\n%s", before, after)
	}
}

func inAnHour() string { return time.Now().Add(time.Hour).UTC().Format(time.RFC3339) }
