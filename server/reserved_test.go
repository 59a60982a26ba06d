package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/store"
	"mailroom/thread"
)

// limited returns a token that acts for the token of f with some of its scopes.
func (f *fixture) limited(scopes string, more ...string) *fixture {
	f.t.Helper()
	body := fmt.Sprintf(`{"scopes":[%s],"expires_at":%q}`, scopes, time.Now().Add(time.Hour).Format(time.RFC3339))
	made := mustCall[api.CreatedToken](f, "POST /v1/tokens/limited", body)
	return f.withToken(made.Secret)
}

// TestReservedThreadIDsDoNotDependOnTheConfiguration asks for threads of targets, channels, projects and issues
// that the server does not have, in every spelling that names the same id.
func TestReservedThreadIDsDoNotDependOnTheConfiguration(t *testing.T) {
	f := start(t)
	bob := f.withToken(f.createToken("bob", "", auth.PermissionRead, auth.PermissionSubmit))
	// its namespace has the ids
	whole := f.withToken(f.createToken("whole", "a", auth.PermissionRead, auth.PermissionSubmit))
	for _, id := range []string{"alert:phone", "alert:phone ", "alert:phone:bob", "alert:browsers:push:0f", "channel:shop",
		"out:shop:webhook:3", "out:x"} {
		for name, who := range map[string]*fixture{"a token": bob, "a token of a namespace": whole,
			"a limited token of the operator": f.limited(`"read","submit"`), "the operator": f} {
			body, err := json.Marshal(map[string]string{"thread": id, "text": "x"})
			if err != nil {
				t.Fatal(err)
			}
			f.wantCode(fmt.Sprintf("%s makes %q", name, id), who.call("POST /v1/messages", string(body)), http.StatusForbidden,
				mailroom.CodeForbidden)
		}
	}
	for _, id := range []string{"project:new", "issue:1"} {
		body := fmt.Sprintf(`{"thread":%q,"text":"x"}`, id)
		f.wantCode("a token makes "+id, bob.call("POST /v1/messages", body), http.StatusForbidden, mailroom.CodeForbidden)
		f.wantCode("a limited token of the operator makes "+id, f.limited(`"submit"`).call("POST /v1/messages", body),
			http.StatusForbidden, mailroom.CodeForbidden)
	}
	if rows := f.threadsWith("alert:", "channel:", "out:", "project:", "issue:"); len(rows) > 0 {
		t.Errorf("refused requests made %v", rows)
	}
	// the way to make a project
	mustCall[api.Reserved](bob, "POST /v1/reservations", `{"project":"new","names":["a"],"holder":"x"}`)
}

// threadsWith returns the ids of the threads with one of these prefixes.
func (f *fixture) threadsWith(prefixes ...string) (ids []string) {
	f.t.Helper()
	err := f.ledger.View(f.t.Context(), func(r store.Reader) error {
		for _, p := range prefixes {
			rows, err := r.Threads(store.ThreadQuery{Prefix: p})
			if err != nil {
				return err
			}
			for _, row := range rows {
				ids = append(ids, row.ID)
			}
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return ids
}

// TestDeliverToIsSetUnderTheConditionsOfNotify changes deliver_to by itself, under the conditions of notify.
func TestDeliverToIsSetUnderTheConditionsOfNotify(t *testing.T) {
	f := start(t, withRules)
	ann := f.withToken(f.createToken("ann", "", auth.PermissionRead, auth.PermissionSubmit))
	bob := f.withToken(f.createToken("bob", "", auth.PermissionRead, auth.PermissionSubmit))
	ann.submit("hers", "x")
	bob.submit("his", "x")
	f.submit("ours", "x")
	patch := func(who *fixture, id, to string) response {
		body, err := json.Marshal(map[string]string{"deliver_to": to})
		if err != nil {
			t.Fatal(err)
		}
		return who.call("PATCH /v1/threads/"+id, string(body))
	}
	for name, test := range map[string]struct {
		who    *fixture
		id, to string
		status int
		code   mailroom.Code
	}{
		"a target that does not name the token": {bob, "his", "alert:phone", 403, mailroom.CodeForbidden},
		"the place of another token":            {bob, "his", "alert:phone:ann", 403, mailroom.CodeForbidden},
		"the place of another, of one who may":  {ann, "hers", "alert:phone:bob", 403, mailroom.CodeForbidden},
		"no target":                             {ann, "hers", "alert:tablet", 403, mailroom.CodeForbidden},
		"no target, of the operator":            {f, "ours", "alert:tablet", 422, mailroom.CodeInvalid},
		"a target of the operator":              {ann, "hers", "alert:wall", 403, mailroom.CodeForbidden},
		"a limited token of the operator": {f.limited(`"submit"`), "ours", "alert:phone", 403,
			mailroom.CodeForbidden},
		"a chat, of a limited token of the operator": {f.limited(`"submit"`), "ours", "out:shop:webhook:3", 403,
			mailroom.CodeForbidden},
		"the operator, a thread of another":      {f, "hers", "alert:phone", 403, mailroom.CodeForbidden},
		"a subscriber":                           {f, "ours", "alert:phone:push:0f", 403, mailroom.CodeForbidden},
		"a chat that does not exist":             {ann, "hers", "out:shop:webhook:3", 403, mailroom.CodeForbidden},
		"the states of a channel":                {f, "ours", "channel:shop", 403, mailroom.CodeForbidden},
		"a project that does not exist":          {ann, "hers", "project:p", 404, mailroom.CodeNotFound},
		"a target in notify, of a limited token": {f.limited(`"submit"`), "", "phone", 403, mailroom.CodeForbidden},
	} {
		got := patch(test.who, test.id, test.to)
		if test.id == "" {
			got = test.who.call("POST /v1/messages", `{"thread":"ours","text":"x","notify":"phone"}`)
		}
		f.wantCode(name, got, test.status, test.code)
	}
	for _, test := range []struct {
		who          *fixture
		id, to, want string
	}{
		{ann, "hers", " alert:phone ", "alert:phone:ann~"},
		{f, "ours", "alert:wall", "alert:wall"},
		{f.limited(`"admin"`), "ours", "out:shop:webhook:3", "out:shop:webhook:3"},
		{f, "ours", "out:shop:webhook:4", "out:shop:webhook:4"},
	} {
		got := patch(test.who, test.id, test.to)
		var row api.Thread
		if err := json.Unmarshal([]byte(got.body), &row); err != nil || row.DeliverTo == nil ||
			!strings.HasPrefix(*row.DeliverTo, test.want) {
			t.Errorf("%s delivers to %q: got %d %s, want %s", test.id, test.to, got.status, got.body, test.want)
		}
	}
}

// TestADeliveryReachesTheAgentOfItsTarget delivers before the target's thread exists, and after its deletion.
// The default agent, which answers, gets none of it.
func TestADeliveryReachesTheAgentOfItsTarget(t *testing.T) {
	f := start(t, withRules)
	f.submit("ours", "first")
	mustCall[api.Thread](f, "PATCH /v1/threads/ours", `{"deliver_to":"alert:phone"}`)
	f.settleRun(f.claim(), thread.OutcomeComplete, "done")
	var runs []*mailroom.Run
	err := f.ledger.View(t.Context(), func(r store.Reader) (err error) {
		runs, err = r.Runs(store.RunQuery{Thread: "alert:phone"})
		return err
	})
	if err != nil || len(runs) != 1 || runs[0].Agent != "alert:phone" {
		t.Errorf("deliveries: %+v, %v; want one of agent alert:phone", runs, err)
	}
	plain := mustCall[store.Submitted](f, "POST /v1/messages", `{"thread":"alert:phone","text":"hello","agent":"echo"}`)
	got := mustCall[api.Run](f, "GET /v1/runs/"+plain.Run, "")
	if got.Agent != "alert:phone" {
		t.Errorf("a message to the thread of a target is run by %s, want alert:phone", got.Agent)
	}
}

// TestALimitedTokenOfTheOperatorIsNotTheOperator tries what the operator's name would open, with every right but admin.
func TestALimitedTokenOfTheOperatorIsNotTheOperator(t *testing.T) {
	f := start(t, withRules)
	mustCall[api.AlertRule](f, "POST /v1/alerts/rules", `{"name":"ph","when":["failed"],"to":["wall"]}`)
	l := f.limited(`"read","submit","decide"`)
	const evil = `{"name":"evil","when":["failed"],"to":["wall"],"text":"full"}`
	f.wantCode("make a rule", l.call("POST /v1/alerts/rules", evil), 403, mailroom.CodeForbidden)
	f.wantCode("remove a rule", l.call("DELETE /v1/alerts/rules/ph", ""), 403, mailroom.CodeForbidden)
	f.wantCode("list targets", l.call("GET /v1/alerts", ""), 403, mailroom.CodeForbidden)
	refused := l.call("POST /v1/messages", `{"thread":"t","text":"x","notify":"wall"}`)
	f.wantCode("deliver to a target", refused, 403, mailroom.CodeForbidden)
	if !strings.Contains(refused.body, "GET /v1/alerts lists") { // the rules of threads refuse it too, and say less
		t.Errorf("the refusal does not say what the token may use: %s", refused.body)
	}
	if shown := mustCall[api.Alerts](f, "GET /v1/alerts", ""); len(shown.Rules) != 2 || shown.Rules[1].Name != "ph" {
		t.Errorf("rules of the operator: %+v", shown.Rules)
	}
	// the scope is the right
	if shown := mustCall[api.Alerts](f.limited(`"read","admin"`), "GET /v1/alerts", ""); len(shown.Rules) != 2 {
		t.Errorf("a limited token with the scope admin sees %+v", shown.Rules)
	}
}

// TestALimitedTokenDoesNotChangeTheRulesOfItsToken: a rule is about all threads of a token, and a limited one is a part
// of its rights, for a page or a program.
func TestALimitedTokenDoesNotChangeTheRulesOfItsToken(t *testing.T) {
	f := start(t, withRules)
	ann := f.withToken(f.createToken("ann", "", auth.PermissionRead, auth.PermissionSubmit))
	mustCall[api.AlertRule](ann, "POST /v1/alerts/rules", `{"name":"night","when":["ticket"],"to":["phone"]}`)
	l := ann.limited(`"read","submit"`)
	f.wantCode("remove a rule", l.call("DELETE /v1/alerts/rules/night", ""), 403, mailroom.CodeForbidden)
	f.wantCode("make a rule", l.call("POST /v1/alerts/rules", `{"name":"x","when":["failed"],"to":["phone"]}`), 403,
		mailroom.CodeForbidden)
	of := f.limited(`"read","admin"`) // of the operator, whose rules would not end with it either
	f.wantCode("make a rule of the operator", of.call("POST /v1/alerts/rules",
		`{"name":"x","when":["failed"],"to":["phone"]}`), 403, mailroom.CodeForbidden)
	if shown := mustCall[api.Alerts](l, "GET /v1/alerts", ""); len(shown.Rules) != 1 {
		t.Errorf("it sees %+v, want the rule", shown.Rules)
	}
}
