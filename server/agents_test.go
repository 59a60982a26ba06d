package server_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server"
	"mailroom/store"
	"mailroom/thread"
)

func TestAgentsAndWorkersAgreeWithTheRows(t *testing.T) {
	f := start(t, func(o *server.Options) {
		o.Agents.Describe = func(name string) server.AgentInfo {
			if name == "codex" {
				return server.AgentInfo{Kind: "exec", Version: "0123456789ab", Problem: "there is no program codex"}
			}
			return server.AgentInfo{Kind: "echo"}
		}
	})
	text := func(s string) *string { return &s }
	agents, err := f.client.Agents(t.Context())
	want := []api.Agent{
		{Name: "codex", Kind: text("exec"), Version: text("0123456789ab"), Reason: text("there is no program codex")},
		{Name: "echo", Kind: text("echo"), Reason: text("no live worker serves it")},
	}
	if diff := cmp.Diff(want, agents); diff != "" || err != nil {
		t.Errorf("without a worker: %v %s", err, diff)
	}
	if workers, err := f.client.Workers(t.Context()); err != nil || len(workers) != 0 {
		t.Errorf("workers %+v, %v, want none", workers, err)
	}

	f.submit("t", "one")
	f.submit("t", "two")
	begin := time.Now()
	f.claim()
	if _, err := f.ledger.Workers().Register(t.Context(),
		store.Worker{ID: "far", Host: "there", PID: 7, Agents: []string{"tour", "echo"}}); err != nil {
		t.Fatal(err)
	}
	agents, err = f.client.Agents(t.Context())
	want = []api.Agent{
		{Name: "codex", Kind: text("exec"), Version: text("0123456789ab"), Reason: text("there is no program codex"), Workers: 1},
		{Name: "echo", Kind: text("echo"), Available: true, Workers: 2, Running: 1, Queued: 1},
		{Name: "tour", Available: true, Workers: 1},
	}
	if diff := cmp.Diff(want, agents); diff != "" || err != nil {
		t.Errorf("with two workers: %v %s", err, diff)
	}
	workers, err := f.client.Workers(t.Context())
	if err != nil || len(workers) != 2 || !workers[1].LeaseUntil.After(begin) {
		t.Fatalf("workers %+v, %v", workers, err)
	}
	shown := []api.Worker{
		{ID: "far", Host: "there", PID: 7, Agents: []string{"echo", "tour"}, LeaseUntil: workers[0].LeaseUntil, Duties: []string{}},
		{ID: "w", Agents: []string{"codex", "echo"}, Running: 1, LeaseUntil: workers[1].LeaseUntil, Duties: []string{}},
	}
	if diff := cmp.Diff(shown, workers); diff != "" {
		t.Error(diff)
	}
	if a := f.call("POST /v1/messages", `{"text":"a","agent":"tour"}`); a.status != 202 {
		t.Errorf("submit for an agent with a worker: %d %s, want 202", a.status, a.body)
	}
}

func TestStatsCountRows(t *testing.T) {
	f := start(t)
	want := api.Stats{Runs: map[mailroom.Status]int{
		mailroom.StatusQueued: 0, mailroom.StatusRunning: 0, mailroom.StatusWaiting: 0, mailroom.StatusCompleted: 0,
		mailroom.StatusFailed: 0, mailroom.StatusCancelled: 0,
	}}
	got, err := f.client.Stats(t.Context())
	if age := time.Since(got.StartedAt); age < 0 || age > time.Hour {
		t.Errorf("started_at %s", got.StartedAt)
	}
	want.StartedAt = got.StartedAt
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("empty: %v %s", err, diff)
	}
	f.submit("done", "x")
	f.settleRun(f.claim(), thread.OutcomeComplete, "")
	f.submit("failed", "x")
	f.settleRun(f.claim(), thread.OutcomeFail, "")
	f.waiting("waits", newAsk(mailroom.TicketTimer)) // is due in an hour, not now
	f.submit("runs", "x")
	f.claim()
	f.submit("runs", "behind it") // is not due
	if got, err = f.client.Stats(t.Context()); err != nil || got.OldestDueMS != 0 {
		t.Errorf("oldest_due_ms %d without a due run, %v", got.OldestDueMS, err)
	}
	begin := time.Now()
	f.submit("due", "x")
	for ; got.OldestDueMS < 5 && err == nil; got, err = f.client.Stats(t.Context()) {
	}
	if took := time.Since(begin).Milliseconds(); err != nil || got.OldestDueMS > took+5 {
		t.Errorf("oldest_due_ms %d after %d ms, %v", got.OldestDueMS, took, err)
	}
	want.Runs = map[mailroom.Status]int{
		mailroom.StatusQueued: 2, mailroom.StatusRunning: 1, mailroom.StatusWaiting: 1, mailroom.StatusCompleted: 1,
		mailroom.StatusFailed: 1, mailroom.StatusCancelled: 0,
	}
	want.Threads, want.OldestDueMS = 5, got.OldestDueMS
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMetricsCountOperationsAndRuns(t *testing.T) {
	f := start(t)
	f.submit("t", "x")
	f.settleRun(f.claim(), thread.OutcomeComplete, "")
	f.submit("t", "x")
	f.call("POST /v1/messages", `{"thread":"t","text":"x","mode":"reject"}`)
	f.open(200, "/v1/threads/t/stream")
	a := f.call("GET /metrics", "")
	if !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
		t.Errorf("content type %q", a.header.Get("Content-Type"))
	}
	for _, line := range []string{
		`mailroom_operations_total{operation="submit",result="ok"} 2`,
		`mailroom_operations_total{operation="submit",result="busy"} 1`,
		`mailroom_operations_total{operation="settle",result="ok"} 1`,
		`mailroom_operation_seconds_count{operation="submit"} 3`,
		`mailroom_runs_total{agent="echo",status="completed"} 1`,
		`mailroom_enqueue_to_done_seconds_count 1`,
		`mailroom_runs{status="queued"} 1`,
		`mailroom_runs{status="completed"} 1`,
		`mailroom_runs{status="failed"} 0`,
		`mailroom_stream_subscribers 1`,
	} {
		if !strings.Contains(a.body, "\n"+line+"\n") {
			t.Errorf("metrics lack the line %s", line)
		}
	}
	f.wantCode("a parameter", f.call("GET /metrics?q=x", ""), 422, mailroom.CodeInvalid)
	f.wantCode("no token", f.call("GET /metrics", "", "Authorization: "), 401, mailroom.CodeUnauthenticated)
}

func TestMetricsShowWhatWaits(t *testing.T) {
	f := start(t)
	levels := func() (got []string) {
		for line := range strings.Lines(f.call("GET /metrics", "").body) {
			if strings.HasPrefix(line, "mailroom_queue_runs{") || strings.HasPrefix(line, "mailroom_tickets_open") {
				got = append(got, strings.TrimSpace(line))
			}
		}
		return got
	}
	none := []string{`mailroom_tickets_open{kind="approval"} 0`, `mailroom_tickets_open{kind="input"} 0`}
	if diff := cmp.Diff(none, levels()); diff != "" {
		t.Errorf("an empty store: %s", diff)
	}
	f.submit("behind", "x")
	f.claim()
	f.submit("behind", "it waits for a run that works")
	_, tickets := f.waiting("asks", approval(), newAsk(mailroom.TicketTimer))
	f.submit("asks", "it waits for a person")
	want := []string{
		`mailroom_queue_runs{agent="echo",cause="decision"} 1`, `mailroom_queue_runs{agent="echo",cause="run"} 1`,
		`mailroom_tickets_open{kind="approval"} 1`, `mailroom_tickets_open{kind="input"} 0`,
	}
	if diff := cmp.Diff(want, levels()); diff != "" {
		t.Error(diff)
	}
	body := f.call("GET /metrics", "").body
	if !strings.Contains(body, "\nmailroom_ticket_oldest_seconds{kind=\"input\"} 0\n") ||
		strings.Contains(body, "\nmailroom_ticket_oldest_seconds{kind=\"approval\"} 0\n") {
		t.Errorf("the age of the open ticket: %s", body)
	}
	f.call("POST /v1/tickets/"+tickets["deploy"].ID, `{"decision":"deny","digest":"`+tickets["deploy"].Digest+`"}`)
	if got := levels(); !slices.Contains(got, `mailroom_tickets_open{kind="approval"} 0`) {
		t.Errorf("after the decision: %q", got)
	}
}

// TestATokenDoesNotSeeTheWorkOfOthers uses a running run of another token.
func TestATokenDoesNotSeeTheWorkOfOthers(t *testing.T) {
	f := start(t)
	f.call("POST /v1/threads/t/messages", `{"text":"a","agent":"echo"}`)
	f.claim()
	running := func(f *fixture) (n int) {
		for _, a := range mustCall[api.Page[api.Agent]](f, "GET /v1/agents", "").Items {
			n += a.Running
		}
		return n
	}
	workers := func(f *fixture) int { return len(mustCall[api.Page[api.Worker]](f, "GET /v1/workers", "").Items) }
	if r, w := running(f), workers(f); r != 1 || w != 1 {
		t.Fatalf("the operator sees %d runs and %d workers, want one of each", r, w)
	}
	reader := f.withToken(f.createToken("reader", "", auth.PermissionRead))
	if r, w := running(reader), workers(reader); r != 0 || w != 0 {
		t.Errorf("another token sees %d runs and %d workers, want none", r, w)
	}
	f.wantCode("metrics for a reader", reader.call("GET /metrics", ""), 403, mailroom.CodeForbidden)
	if a := f.withToken(f.createToken("prometheus", "", auth.PermissionMeasure)).call("GET /metrics",
		""); a.status != 200 {
		t.Errorf("metrics with their scope: %d %s", a.status, a.body)
	}
}
