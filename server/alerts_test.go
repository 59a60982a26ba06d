package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/internal/reserved"
	"mailroom/server"
	"mailroom/store"
	"mailroom/thread"
)

// withRules gives the server a target that token ann may use too, and a rule of the configuration.
func withRules(o *server.Options) {
	withTargets(o)
	o.Parts.Alerts.Targets[0].Tokens = []string{"ann"}
	all, err := alert.ParseRule(api.AlertRule{Name: "all", When: []string{"ticket"}, To: []string{"phone"}}, auth.Operator,
		[]string{"phone"})
	if err != nil {
		panic(err)
	}
	o.Parts.Alerts.Rules = []alert.Rule{all}
}

// TestATargetShowsWhyItsAlertsWait has an alert that was tried once, while the target was down, and then is refused.
func TestATargetShowsWhyItsAlertsWait(t *testing.T) {
	f := start(t, withTargets)
	shown := func() (waiting int, why string) {
		for _, target := range mustCall[api.Alerts](f, "GET /v1/alerts", "").Targets {
			if target.Name == "phone" && target.LastError != nil {
				why = *target.LastError
			}
			waiting += target.Waiting
		}
		return waiting, why
	}
	fail := func(class mailroom.Class, why string) {
		w := f.claimOf(alert.AgentName("phone"))
		f.settle(thread.Settle{
			Claim: w.Claim, Number: w.Run.Step + 1, Outcome: thread.OutcomeFail,
			Failure: &mailroom.Failure{Class: class, Err: errors.New(why)},
		})
	}
	if _, err := f.ledger.Submit(t.Context(), thread.Submit{
		Thread: alert.ThreadID("phone"), Agent: alert.AgentName("phone"), Owner: auth.Operator,
		Messages: []thread.NewMessage{{Parts: mailroom.Text("x")}},
	}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		step    func()
		waiting int
		why     string
	}{
		{func() {}, 1, ""},
		{func() { fail(mailroom.ClassUnavailable, "no route") }, 1, "no route"},
		{func() { fail(mailroom.ClassPermanent, "topic invalid") }, 0, "topic invalid"},
	} {
		test.step()
		if waiting, why := shown(); waiting != test.waiting || why != test.why {
			t.Errorf("%d alerts wait because of %q, want %d, %q", waiting, why, test.waiting, test.why)
		}
	}
}

func TestATokenMakesRulesAboutItsOwnThreads(t *testing.T) {
	f := start(t, withRules)
	ann := f.withToken(f.createToken("ann", "", auth.PermissionRead, auth.PermissionSubmit))
	bob := f.withToken(f.createToken("bob", "", auth.PermissionRead, auth.PermissionSubmit))
	const night = `{"name":"night","when":["ticket","failed"],"to":["phone"],"quiet":"22:00-07:00",` +
		`"zone":"Europe/Berlin","remind_after":"30m"}`
	made := mustCall[api.AlertRule](ann, "POST /v1/alerts/rules", night)
	if made.Name != "night" || made.Text != "title" || made.Digest != "08:00" || made.Quiet != "22:00-07:00" ||
		made.Remind != "30m" {
		t.Errorf("made: %+v", made)
	}
	mustCall[api.AlertRule](ann, "POST /v1/alerts/rules", `{"name":"night","when":["ticket"],"to":["phone"],"text":"none"}`)
	mustCall[api.AlertRule](f, "POST /v1/alerts/rules", `{"name":"mornings","when":["digest","channel"],"to":["wall","phone"]}`)
	for _, test := range []struct {
		who     *fixture
		targets int
		rules   string
	}{
		{f, 2, "[all mornings]"},
		{ann, 1, "[night]"},
		{bob, 0, "[]"},
	} {
		shown := mustCall[api.Alerts](test.who, "GET /v1/alerts", "")
		names := []string{}
		for _, r := range shown.Rules {
			names = append(names, r.Name)
		}
		if len(shown.Targets) != test.targets || fmt.Sprint(names) != test.rules {
			t.Errorf("shown: %+v, want %d targets and rules %s", shown, test.targets, test.rules)
		}
	}
	for name, test := range map[string]struct {
		who    *fixture
		route  string
		body   string
		status int
		code   mailroom.Code
	}{
		"a target of others":       {bob, "POST /v1/alerts/rules", night, 422, mailroom.CodeInvalid},
		"a target of the operator": {ann, "POST /v1/alerts/rules", `{"name":"x","when":["ticket"],"to":["wall"]}`, 422, mailroom.CodeInvalid},
		"two targets of a token":   {ann, "POST /v1/alerts/rules", `{"name":"x","when":["ticket"],"to":["phone","wall"]}`, 422, mailroom.CodeInvalid},
		"the state of the server":  {ann, "POST /v1/alerts/rules", `{"name":"x","when":["digest"],"to":["phone"]}`, 422, mailroom.CodeInvalid},
		"nothing":                  {ann, "POST /v1/alerts/rules", `{"name":"x","when":[],"to":["phone"]}`, 422, mailroom.CodeInvalid},
		"no name":                  {ann, "POST /v1/alerts/rules", `{"when":["ticket"],"to":["phone"]}`, 422, mailroom.CodeInvalid},
		"a name with a slash":      {ann, "POST /v1/alerts/rules", `{"name":"x/y","when":["ticket"],"to":["phone"]}`, 422, mailroom.CodeInvalid},
		"a reminder of nothing": {ann, "POST /v1/alerts/rules",
			`{"name":"x","when":["failed"],"to":["phone"],"remind_after":"30m"}`, 422, mailroom.CodeInvalid},
		"reminders without a pause": {ann, "POST /v1/alerts/rules",
			`{"name":"x","when":["ticket"],"to":["phone"],"remind_after":"10ms"}`, 422, mailroom.CodeInvalid},
		"a time that is none":          {ann, "POST /v1/alerts/rules", `{"name":"x","when":["ticket"],"to":["phone"],"quiet":"22-7"}`, 422, mailroom.CodeInvalid},
		"a zone that is none":          {ann, "POST /v1/alerts/rules", `{"name":"x","when":["ticket"],"to":["phone"],"zone":"../../etc/passwd"}`, 422, mailroom.CodeInvalid},
		"a rule of the configuration":  {f, "POST /v1/alerts/rules", `{"name":"all","when":["ticket"],"to":["phone"]}`, 409, mailroom.CodeConflict},
		"the rule of another":          {bob, "DELETE /v1/alerts/rules/night", "", 404, mailroom.CodeNotFound},
		"a rule of the file, removed":  {f, "DELETE /v1/alerts/rules/all", "", 404, mailroom.CodeNotFound},
		"the operator's, by its owner": {ann, "DELETE /v1/alerts/rules/mornings", "", 404, mailroom.CodeNotFound},
	} {
		f.wantCode(name, test.who.call(test.route, test.body), test.status, test.code)
	}
	for i := range alert.MaxRules - 1 {
		mustCall[api.AlertRule](ann, "POST /v1/alerts/rules", fmt.Sprintf(`{"name":"r%d","when":["ticket"],"to":["phone"]}`, i))
	}
	f.wantCode("one too many", ann.call("POST /v1/alerts/rules", `{"name":"more","when":["ticket"],"to":["phone"]}`), 409, mailroom.CodeConflict)
	if got := ann.call("DELETE /v1/alerts/rules/night", ""); got.status != http.StatusNoContent {
		t.Errorf("remove: %d %s", got.status, got.body)
	}
	if err := f.ledger.View(t.Context(), func(r store.Reader) error {
		rows, err := r.Cursors(store.CursorQuery{Channel: "alert"})
		if len(rows) != 2 {
			t.Errorf("%d lists of rules", len(rows))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestAThreadDeliversToOneTarget asks for a delivery that a thread cannot make. It is refused and nothing is
// sent; a repeat of an accepted message is not.
func TestAThreadDeliversToOneTarget(t *testing.T) {
	f := start(t, withRules)
	ann := f.withToken(f.createToken("ann", "", auth.PermissionRead, auth.PermissionSubmit))
	const first = `{"thread":"night","text":"x","key":"k","notify":"phone"}`
	mustCall[store.Submitted](f, "POST /v1/messages", first)
	mustCall[store.Submitted](f, "POST /v1/messages", `{"thread":"night","text":"again","notify":"phone"}`)
	mustCall[store.Submitted](ann, "POST /v1/messages", `{"thread":"hers","text":"x"}`)
	for name, body := range map[string]string{
		"another target": `{"thread":"night","text":"y","notify":"wall"}`,
		"another owner":  `{"thread":"hers","text":"y","notify":"phone"}`,
	} {
		got := f.call("POST /v1/messages", body)
		f.wantCode(name, got, 409, mailroom.CodeConflict)
		if p := got.problem(t); len(p.Errors) != 1 || p.Errors[0].Location != "body.notify" {
			t.Errorf("%s: %s", name, got.body)
		}
	}
	mustCall[store.Submitted](f, "POST /v1/messages", first)
	for id, want := range map[string]int{"night": 2, "hers": 1} {
		if runs := mustCall[api.Page[api.Run]](f, "GET /v1/runs?q=thread:"+id, ""); len(runs.Items) != want {
			t.Errorf("%s has %d runs, want %d", id, len(runs.Items), want)
		}
	}
}

// TestAllThreadsOfATargetCountAsWaiting has alerts that wait in the thread of a target, of a browser and of a
// token.
func TestAllThreadsOfATargetCountAsWaiting(t *testing.T) {
	f := start(t, withRules)
	later := time.Now().Add(time.Hour)
	submit := func(id string, at time.Time) {
		t.Helper()
		if _, err := f.ledger.Submit(t.Context(), thread.Submit{Thread: id, Owner: reserved.Owner(id), Agent: "alert:phone",
			NotBefore: at, Messages: []thread.NewMessage{{Parts: mailroom.Text("x")}}}); err != nil {
			t.Fatal(err)
		}
	}
	shown := func(at int) api.Target { return mustCall[api.Alerts](f, "GET /v1/alerts", "").Targets[at] }
	submit("alert:phone:ann", later)
	if got := shown(0); got.Waiting != 0 || got.Oldest != nil {
		t.Errorf("in quiet hours: %+v", got)
	}
	submit("alert:phone:push:1", time.Time{})
	submit("alert:phone:push:1", time.Time{})
	first := shown(0)
	submit("alert:phone:push:2", time.Time{})
	submit("alert:phone:ann", time.Time{})
	submit("alert:phone", time.Time{})
	submit("alert:phone2:ann", time.Time{}) // of another target
	f.claimOf("alert:phone")
	got := shown(0)
	if first.Waiting != 2 || got.Waiting != 5 || first.Oldest == nil || got.Oldest == nil ||
		!got.Oldest.Equal(*first.Oldest) {
		t.Errorf("waiting: %+v, before that %+v", got, first)
	}
	if wall := shown(1); wall.Waiting != 0 || wall.Oldest != nil {
		t.Errorf("another target: %+v", wall)
	}
	if n := f.metricOf(`mailroom_alerts_waiting{target="phone"}`); n != "5" {
		t.Errorf("the metric is %s", n)
	}
	for i := range 1000 {
		submit(fmt.Sprint("alert:phone:push:", i%3), time.Time{})
	}
	if got := shown(0); got.Waiting != 1000 || !got.Oldest.Equal(*first.Oldest) {
		t.Errorf("many: %+v", got)
	}
}
