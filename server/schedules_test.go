package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/engine"
	"mailroom/internal/reserved"
	"mailroom/schedule"
	"mailroom/schedule/plan"
	"mailroom/server"
)

// startScheduling is start with an engine that carries out what schedules are asked.
func startScheduling(t *testing.T) *fixture {
	t.Helper()
	f := start(t, func(o *server.Options) { o.Limits.Commands = time.Minute })
	e := engine.New(f.ledger.Workers(), f.bus, engine.Options{Agents: map[string]engine.Agent{
		reserved.Scheduler: {Agent: schedule.New(f.ledger, auth.NewOperator(token)), Version: "0123456789ab"},
	}})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestAScheduleFromItsMakingToItsDeletion(t *testing.T) {
	f := startScheduling(t)
	mustCall[api.ScheduleChanged](f, "POST /v1/schedules", `{"name":"report","spec":{"cron":"0 7 13 * 5",`+
		`"zone":"Europe/Berlin","thread":"inbox","agent":"echo","text":"go","jitter":"1m"}}`)
	made := mustCall[api.Schedule](f, "GET /v1/schedules/report", "")
	spec := made.Spec
	if made.Owner != "admin" || made.Log != "schedule:admin:report" || len(made.Next) != 10 || made.NextAt == nil ||
		!strings.Contains(made.Note, "also on each day of week 5") || spec.Overlap != "skip" || spec.Window != "1h" {
		t.Errorf("made %+v", made)
	}
	sent := mustCall[api.ScheduleChanged](f, "POST /v1/schedules/report/run", "")
	if len(sent.Open) != 1 {
		t.Fatalf("after a run by hand: %+v", sent)
	}
	run := mustCall[api.Run](f, "GET /v1/runs/"+sent.Open[0], "")
	if run.Thread != "inbox" || run.Metadata["schedule"] != "report" || run.Metadata["nominal"] == "" {
		t.Errorf("sent %+v", run)
	}
	paused := mustCall[api.ScheduleChanged](f, "POST /v1/schedules/report/pause", `{"note":"holidays"}`)
	if p := paused.Paused; p == nil || p.By != "admin" || p.Note != "holidays" || paused.NextAt != nil {
		t.Errorf("paused %+v", paused)
	}
	if resumed := mustCall[api.ScheduleChanged](f, "POST /v1/schedules/report/resume", ""); resumed.Paused != nil ||
		resumed.NextAt == nil {
		t.Errorf("resumed %+v", resumed)
	}
	mustCall[api.ScheduleChanged](f, "POST /v1/schedules", `{"name":"other","spec":{"every":"90m","text":"go"}}`)
	names, pages := f.readAllPages("/v1/schedules?limit=1", "cursor", fieldOf("name"))
	if !slices.Equal(names, []string{`"other"`, `"report"`}) || pages < 2 {
		t.Errorf("listed %q on %d pages", names, pages)
	}
	if got := f.call("DELETE /v1/schedules/report", ""); got.status >= 300 {
		t.Error(got.body)
	}
	f.wantCode("after its deletion", f.call("GET /v1/schedules/report", ""), 404, mailroom.CodeNotFound)
	var did []string
	for _, a := range f.audited("") {
		did = append(did, a.Action)
	}
	want := "schedule.put schedule.run schedule.pause schedule.resume schedule.put run.cancel run.cancel thread.delete"
	if got := strings.Join(did, " "); got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}
}

func TestARepeatedRunOfAScheduleSendsOnce(t *testing.T) {
	f := startScheduling(t)
	mustCall[api.ScheduleChanged](f, "POST /v1/schedules", `{"name":"report","spec":{"every":"1h","text":"go"}}`)
	for range 3 {
		got := f.call("POST /v1/schedules/report/run", "", "Idempotency-Key: once")
		if got.status != 200 || !strings.Contains(got.body, `"open":["`) {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	if got := mustCall[api.Schedule](f, "GET /v1/schedules/report", ""); got.Sent != 1 {
		t.Errorf("%d were sent", got.Sent)
	}
	mustCall[api.ScheduleChanged](f, "POST /v1/schedules/report/run", "")
	if got := mustCall[api.Schedule](f, "GET /v1/schedules/report", ""); got.Sent != 2 {
		t.Errorf("%d were sent after a run without a key", got.Sent)
	}
	f.wantCode("a key that is too long", f.call("POST /v1/schedules/report/run", "", "Idempotency-Key: "+
		strings.Repeat("k", mailroom.MaxSubmitKey+1)), 422, mailroom.CodeInvalid)
}

func TestSchedulesOfOthersAreNotFound(t *testing.T) {
	f := startScheduling(t)
	ann := f.withToken(f.createToken("ann", "", scopesWithout("")...))
	eve := f.withToken(f.createToken("eve", "", scopesWithout("")...))
	mustCall[api.ScheduleChanged](ann, "POST /v1/schedules", `{"name":"report","spec":{"every":"1h","text":"hers"}}`)
	for route, body := range map[string]string{
		"GET /v1/schedules/report": "", "POST /v1/schedules/report/pause": `{}`, "POST /v1/schedules/report/resume": "",
		"POST /v1/schedules/report/run": "", "DELETE /v1/schedules/report": "", "GET /v1/threads/schedule:ann:report": "",
		"POST /v1/threads/schedule:ann:report/messages": `{"text":"x"}`, "DELETE /v1/threads/schedule:ann:report": "",
	} {
		if got := eve.call(route, body); got.status != 404 && got.status != 403 || strings.Contains(got.body, "hers") {
			t.Errorf("%s: %d %s", route, got.status, got.body)
		}
		if of, _, _ := strings.Cut(route, "/v1/threads"); of == route {
			f.wantCode(route, eve.call(route+"?owner=ann", body), 403, mailroom.CodeForbidden)
		}
	}
	for _, list := range []string{"GET /v1/schedules", "GET /v1/schedules?cursor=schedule:ann:"} {
		if got := mustCall[api.Page[api.Schedule]](eve, list, ""); len(got.Items) != 0 {
			t.Errorf("%s: %+v", list, got)
		}
	}
	f.wantCode("all owners", eve.call("GET /v1/schedules?owner=*", ""), 403, mailroom.CodeForbidden)
	if got := mustCall[api.Page[api.Schedule]](f, "GET /v1/schedules?owner=*", ""); len(got.Items) != 1 {
		t.Errorf("an admin sees %+v", got)
	}
	got := mustCall[api.ScheduleChanged](f, "POST /v1/schedules/report/pause?owner=ann", `{}`)
	if got.Paused.By != "admin" {
		t.Errorf("an admin paused it: %+v", got)
	}
	const same = `{"name":"report","spec":{"every":"1h","text":"of eve"}}` // the name is free
	mustCall[api.ScheduleChanged](eve, "POST /v1/schedules", same)
	limited := ann.withToken(mustCall[api.CreatedToken](ann, "POST /v1/tokens/limited",
		fmt.Sprintf(`{"scopes":["read","submit"],"expires_at":%q}`, inAnHour())).Secret)
	f.wantCode("a limited token", limited.call("POST /v1/schedules", same), 403, mailroom.CodeForbidden)
}

func TestARefusedScheduleSaysWhatToUse(t *testing.T) {
	f := startScheduling(t)
	for body, want := range map[string]string{
		`{"text":"x"}`: "exactly one of cron, every and at",
		`{"cron":"0 7 * * *","every":"1h","text":"x"}`:                   "exactly one of cron, every and at",
		`{"cron":"every weekday at 7","text":"x"}`:                       `use \"0 7 * * 1-5\"`,
		`{"cron":"0 0 31 2 *","text":"x"}`:                               "never fires",
		`{"cron":"0 7 * * *","zone":"Berlin","text":"x"}`:                "not the name of a time zone",
		`{"cron":"0 7 * * *","zone":"Local","text":"x"}`:                 "the zone of one machine",
		`{"every":"30s","text":"x"}`:                                     "shorter than 1m0s",
		`{"at":"2001-01-01T00:00:00Z","text":"x"}`:                       "never fires",
		`{"every":"1h","text":"x","start":"9999-12-31T23:00:00-05:00"}`:  "not in the years",
		`{"every":"1h","text":" "}`:                                      "text",
		`{"every":"1h","text":"x","agent":"ecko"}`:                       "unknown agent",
		`{"every":"1h","text":"x","agent":"codex","options":{"loud":1}}`: `does not take the option \"loud\"; use model`,
		`{"every":"1h","text":"x","busy":"steer"}`:                       "needs a thread",
		`{"every":"1h","text":"x","overlap":"never"}`:                    "overlap",
		`{"every":"1h","text":"x","window":"1000h"}`:                     "window",
		`{"every":"1h","text":"x","end":"2001-01-01T00:00:00Z"}`:         "never fires",
		`{"every":"1h","text":"` + strings.Repeat("x", 9000) + `"}`:      "larger than 8192 bytes",
	} {
		got := f.call("POST /v1/schedules", `{"name":"x","spec":`+body+`}`)
		if got.status < 400 || got.status > 499 || !strings.Contains(got.body, want) {
			t.Errorf("%.80s: %d %s, want %q", body, got.status, got.body, want)
		}
	}
	for _, name := range []string{"a:b", "a b", "", strings.Repeat("x", 61)} {
		got := f.call("POST /v1/schedules", `{"name":"`+name+`","spec":{"every":"1h","text":"x"}}`)
		if got.status != 422 {
			t.Errorf("the name %s: %d %s", name, got.status, got.body)
		}
	}
	if got := mustCall[api.Page[api.Schedule]](f, "GET /v1/schedules", ""); len(got.Items) != 0 {
		t.Errorf("made %+v", got.Items)
	}
}

// refusedSchedules makes the refusals that operations.md has of schedules.
func refusedSchedules(t *testing.T) (made []string) {
	f := startScheduling(t)
	ann := f.withToken(f.createToken("ann", "", scopesWithout("")...))
	eve := f.withToken(f.createToken("eve", "", scopesWithout("")...))
	const hers, theirs = `{"name":"report","spec":{"every":"1h","text":"hers"}}`, "/v1/schedules/report"
	mustCall[api.ScheduleChanged](ann, "POST /v1/schedules", hers)
	limited := ann.withToken(mustCall[api.CreatedToken](ann, "POST /v1/tokens/limited",
		fmt.Sprintf(`{"scopes":["read","submit"],"expires_at":%q}`, inAnHour())).Secret)
	want := func(line string, a response) {
		t.Helper()
		part := strings.Fields(line)
		if got := fmt.Sprint(part[0], " ", a.status, " ", a.problem(t).Code); got != line {
			t.Errorf("%s: got %s: %s", line, got, a.body)
		}
		made = append(made, line)
	}
	want("list-schedules 403 forbidden", eve.call("GET /v1/schedules?owner=ann", ""))
	const own = `{"name":"x","own":true,"spec":{"every":"1h","thread":"hers","text":"x"}}`
	mustCall[api.Submitted](ann, "POST /v1/messages", `{"thread":"hers","agent":"echo","text":"hello"}`)
	want("list-schedules 404 not_found", eve.call("GET /v1/schedules?own=hers", ""))
	want("put-schedule 404 not_found", eve.call("POST /v1/schedules", own))
	want("put-schedule 409 conflict", ann.call("POST /v1/schedules", strings.Replace(own,
		`"every":"1h"`, `"cron":"0 0 31 2 *"`, 1)))
	want("put-schedule 403 forbidden", limited.call("POST /v1/schedules", hers))
	want("put-schedule 413 too_large", ann.call("POST /v1/schedules",
		`{"name":"x","spec":{"every":"1h","text":"`+strings.Repeat("x", 9000)+`"}}`))
	want("put-schedule 422 unserved", ann.call("POST /v1/schedules",
		`{"name":"x","spec":{"every":"1h","text":"x","agent":"nosuch"}}`))
	for op, route := range map[string]string{"get": "GET " + theirs, "pause": "POST " + theirs + "/pause",
		"resume": "POST " + theirs + "/resume", "run": "POST " + theirs + "/run", "delete": "DELETE " + theirs} {
		body := ""
		if op == "pause" {
			body = `{}`
		}
		want(op+"-schedule 404 not_found", eve.call(route, body))
		want(op+"-schedule 403 forbidden", eve.call(route+"?owner=ann", body))
	}
	if got := f.call("DELETE /v1/tokens/ann", ""); got.status > 299 {
		t.Fatal(got.body)
	}
	want("resume-schedule 409 conflict", f.call("POST "+theirs+"/resume?owner=ann", ""))
	want("run-schedule 409 conflict", f.call("POST "+theirs+"/run?owner=ann", ""))
	file := schedule.File{Specs: map[string]plan.Spec{"nightly": {Every: time.Hour, Text: "go"}}}
	if err := file.Apply(t.Context(), f.ledger, auth.NewOperator(token), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	const toFile = "mailroom.toml has it as [schedules.nightly]: change or remove it there"
	want("put-schedule 409 conflict", f.call("POST /v1/schedules", `{"name":"nightly","spec":{"every":"1h","text":"x"}}`))
	got := f.call("DELETE /v1/schedules/nightly", "")
	want("delete-schedule 409 conflict", got)
	if !strings.Contains(got.body, toFile) || !mustCall[api.Schedule](f, "GET /v1/schedules/nightly", "").FromFile {
		t.Errorf("got %s, want %s", got.body, toFile)
	}
	return made
}

func TestTheOwnSchedulesOfAThread(t *testing.T) {
	f := startScheduling(t)
	ann := f.withToken(f.createToken("ann", "", scopesWithout("")...))
	eve := f.withToken(f.createToken("eve", "", scopesWithout("")...))
	mustCall[api.Submitted](ann, "POST /v1/messages", `{"thread":"hers","agent":"echo","text":"hello"}`)
	const body = `{"name":"check","own":true,"spec":{"at":"2h","thread":"hers","text":"look"}}`
	made := mustCall[api.ScheduleChanged](ann, "POST /v1/schedules", body)
	again := mustCall[api.ScheduleChanged](ann, "POST /v1/schedules", strings.Replace(body, "2h", "3h", 1))
	if made.NextAt == nil || again.Name != made.Name || !strings.HasSuffix(made.Name, ".1") ||
		again.NextAt.Sub(*made.NextAt) < 50*time.Minute {
		t.Errorf("made %+v, changed %+v", made, again)
	}
	f.wantCode("a thread of another token", eve.call("POST /v1/schedules", body), 404, mailroom.CodeNotFound)
	f.wantCode("an admin", f.call("POST /v1/schedules", body), 403, mailroom.CodeForbidden)
	f.wantCode("its list", eve.call("GET /v1/schedules?own=hers", ""), 404, mailroom.CodeNotFound)
	f.wantCode("a name of a book", ann.call("POST /v1/schedules",
		strings.Replace(strings.Replace(body, `"own":true,`, "", 1), "check", made.Name, 1)), 422, mailroom.CodeInvalid)
	f.wantCode("a refusal", ann.call("POST /v1/schedules", strings.Replace(body, `"at":"2h"`, `"cron":"0 0 31 2 *"`, 1)),
		409, mailroom.CodeConflict)
	for _, list := range []string{"GET /v1/schedules?own=hers", "GET /v1/schedules"} {
		got := mustCall[api.Page[api.Schedule]](ann, list, "")
		if len(got.Items) != 1 || got.Items[0].Name != made.Name || got.Items[0].Spec.Thread != "hers" {
			t.Errorf("%s: %+v", list, got)
		}
	}
	if got := ann.call("DELETE /v1/schedules/"+made.Name, ""); got.status >= 300 {
		t.Error(got.body)
	}
	if got := mustCall[api.Page[api.Schedule]](ann, "GET /v1/schedules?own=hers", ""); len(got.Items) != 0 {
		t.Errorf("after its deletion: %+v", got)
	}
	mustCall[api.ScheduleChanged](ann, "POST /v1/schedules", body) // its number is free
}
