package server_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/thread"
)

// reportOf returns the report of the last hour.
func (f *fixture) reportOf(more string) api.Report {
	f.t.Helper()
	return mustCall[api.Report](f, "GET /v1/report?since="+
		url.QueryEscape(time.Now().Add(-time.Hour).Format(time.RFC3339))+more, "")
}

func TestReportsShowVisibleRows(t *testing.T) {
	f := start(t)
	f.submit("a", "one")
	f.settleRun(f.claim(), thread.OutcomeComplete, "done <b>well</b>")
	f.submit("b", "two")
	f.park(f.claim(), mailroom.Ask{Name: "q", Kind: mailroom.TicketApproval, Prompt: "Deploy b?", Action: "deploy"})
	mustCall[api.Pause](f, "POST /v1/agents/echo/pause", `{"reason":"no credit"}`)
	got := f.reportOf("")
	if len(got.Agents) != 1 || got.Runs.Completed != 1 || got.Runs.Waiting != 1 || got.Questions.Open != 1 ||
		got.LookedTo != nil || got.Agents[0].Paused == nil || got.Agents[0].Paused.Reason != "no credit" {
		t.Fatalf("got %+v", got)
	}
	if items := got.Agents[0].Items; len(items) != 2 || items[0].Thread != "b" || items[0].Text != "Deploy b? deploy" ||
		items[1].Text != "done <b>well</b>" {
		t.Errorf("runs: %+v", items)
	}
	if q := got.Questions.Items; len(q) != 1 || q[0].Text != "Deploy b? deploy" || q[0].Thread != "b" ||
		q[0].Agent != "echo" {
		t.Errorf("questions: %+v", q)
	}
	past := url.QueryEscape(time.Now().Add(-30 * time.Minute).Format(time.RFC3339))
	if got := f.reportOf("&until=" + past); len(got.Agents) != 1 || got.Runs != (api.ReportRuns{}) ||
		got.Questions.Open != 0 {
		t.Errorf("before all runs: %+v", got)
	}
	if got := f.reportOf("&agent=other"); len(got.Agents) != 0 || got.Questions.Open != 0 {
		t.Errorf("of another agent: %+v", got)
	}
	for q, field := range map[string]string{
		"since=x": "query.since", "q=a": "query.q", "until=2026-01-02": "query.until",
		"since=2026-01-02T00:00:00Z&until=2026-01-02T00:00:00Z": "query.since",
		"since=2026-01-02T00:00:00Z&until=2026-02-03T00:00:00Z": "query.since",
	} {
		got := f.call("GET /v1/report?"+q, "")
		if got.status != 422 || !strings.Contains(got.body, `"location":"`+field+`"`) {
			t.Errorf("%s: got %d %s", q, got.status, got.body)
		}
	}
	operator := f.secret
	for body, threads := range map[string]int{
		`{"name":"ann","scopes":["read","submit"]}`:        0,
		`{"name":"dan","scopes":["read"],"namespace":"b"}`: 1,
	} {
		f.secret = operator
		f.secret = mustCall[api.CreatedToken](f, "POST /v1/tokens", body).Secret
		got := f.reportOf("")
		if len(got.Agents) != threads || got.Questions.Open != threads || got.Runs.Completed != 0 {
			t.Errorf("%s: got %+v", body, got)
		}
	}
}

// TestAReportHasTheSchedulesOfItsCaller: those of others have names and reasons too.
func TestAReportHasTheSchedulesOfItsCaller(t *testing.T) {
	f := startScheduling(t)
	ann := f.withToken(f.createScopedToken("ann", `"read","submit"`))
	mustCall[api.ScheduleChanged](ann, "POST /v1/schedules", `{"name":"nightly","spec":{"every":"1h","text":"go"}}`)
	mustCall[api.ScheduleChanged](ann, "POST /v1/schedules/nightly/pause", `{"note":"holidays"}`)
	for name, c := range map[string]struct {
		caller *fixture
		want   int
	}{
		"ann":          {ann, 1},
		"her limited":  {ann.limited(`"read"`), 1},
		"bob":          {f.withToken(f.createScopedToken("bob", `"read","submit"`)), 0},
		"the operator": {f, 1},
	} {
		got := c.caller.reportOf("").Schedules
		if len(got) != c.want || c.want == 1 && (got[0].Owner != "ann" || got[0].Paused.Note != "holidays") {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
