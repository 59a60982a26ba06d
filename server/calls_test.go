package server_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/store"
	"mailroom/thread"
)

func TestSubmitReturnsItsDisposition(t *testing.T) {
	f := start(t)
	got := mustCall[store.Submitted](f, "POST /v1/threads/%20Chat%20%E2%9C%93%20/messages",
		`{"text":"hello","key":"k","agent":"codex"}`)
	want := store.Submitted{
		Message: got.Message, Run: got.Run, Thread: "Chat ✓", Seq: 1, Place: 1,
		Status: mailroom.StatusQueued, Disposition: store.DispositionQueued, Superseded: []string{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	again := mustCall[store.Submitted](f, "POST /v1/messages",
		`{"thread":"Chat ✓","text":"hello","key":"k","agent":"codex"}`)
	want.Disposition = store.DispositionDuplicate
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("repeated: %s", diff)
	}
	if a := f.call("POST /v1/messages", `{"thread":"Chat ✓","text":"other"}`,
		"Idempotency-Key: k"); a.problem(t).Code != mailroom.CodeConflict {
		t.Errorf("the key with other content: %d %s, want conflict", a.status, a.body)
	}
	if a := f.call("POST /v1/messages", `{"thread":"Chat ✓","text":"x","mode":"reject"}`); a.problem(
		t).Code != mailroom.CodeBusy {
		t.Errorf("mode reject: %d %s, want busy", a.status, a.body)
	}
	if a := f.call("POST /v1/messages", `{"text":"x"}`, "Content-Type: application/json; charset=UTF-8"); a.status != 202 {
		t.Errorf("a new thread: %d %s, want 202", a.status, a.body)
	}
}

func TestAnEmptyThreadIDMakesOneNewThreadPerKey(t *testing.T) {
	f := start(t)
	one := mustCall[store.Submitted](f, "POST /v1/messages", `{"text":"a"}`)
	two := mustCall[store.Submitted](f, "POST /v1/messages", `{"text":"a","thread":" "}`)
	if one.Thread == two.Thread || one.Thread == "" {
		t.Errorf("threads of two submits without a thread: %q and %q", one.Thread, two.Thread)
	}
	k1 := mustCall[store.Submitted](f, "POST /v1/messages", `{"text":"a","key":"k"}`)
	k2 := mustCall[store.Submitted](f, "POST /v1/messages", `{"text":"a","key":"k"}`)
	if k1.Run != k2.Run || k2.Disposition != store.DispositionDuplicate {
		t.Errorf("results of the same key: %+v and %+v", k1, k2)
	}
}

func TestRunFromSubmitToEnd(t *testing.T) {
	f := start(t)
	sent := mustCall[store.Submitted](f, "POST /v1/threads/t/messages",
		`{"messages":[{"role":"system","text":"be kind"},{"text":"hello"}],
		"key":"k","priority":7,"options":{"depth":1.50},"metadata":{"team":"a"},"sender":"ada","max_attempts":2,"max_crashes":0}`)
	run := mustCall[api.Run](f, "GET /v1/runs/"+sent.Run, "")
	key, version, crashes := "k", "0123456789ab", 0
	want := api.Run{
		ID: sent.Run, Thread: "t", Agent: "echo", AgentVersion: &version, Status: mailroom.StatusQueued,
		Mode:     mailroom.ModeQueue,
		Priority: 7, Place: 1, MaxAttempts: 2, MaxCrashes: &crashes, AvailableAt: run.AvailableAt, Key: &key,
		Origin:  mailroom.Origin{Via: "user", Sender: "ada", RequestID: run.Origin.RequestID},
		Options: []byte(`{"depth":1.50}`), Metadata: map[string]string{"team": "a"},
		Messages:  []string{sent.Run + ".1", sent.Run + ".2"},
		CreatedAt: run.CreatedAt,
		WaitsFor:  []api.Blocker{{Cause: thread.CauseWorker, Text: "a worker: no live one serves agent echo"}},
	}
	if diff := cmp.Diff(want, run); diff != "" {
		t.Errorf("queued: %s", diff)
	}

	w := f.claim()
	run = mustCall[api.Run](f, "GET /v1/runs/"+sent.Run, "")
	if run.Status != mailroom.StatusRunning || run.Attempt != 1 || run.Worker == nil || *run.Worker != "w" ||
		run.LeaseUntil == nil || !run.LeaseUntil.After(run.CreatedAt) || run.StartedAt == nil || run.FinishedAt != nil {
		t.Errorf("running: %+v", run)
	}
	f.settleRun(w, thread.OutcomeComplete, "hello yourself")
	run = mustCall[api.Run](f, "GET /v1/runs/"+sent.Run+"/wait", "")
	if run.Status != mailroom.StatusCompleted || run.Reply == nil || *run.Reply != "hello yourself" || run.Worker != nil ||
		run.FinishedAt == nil {
		t.Errorf("completed: %+v", run)
	}

	page := mustCall[api.Page[mailroom.Message]](f, "GET /v1/threads/t/messages", "")
	var texts []string
	for _, m := range page.Items {
		texts = append(texts, fmt.Sprintf("%s %s %s: %s", m.Role, m.Sender, m.State, m.Text))
	}
	if diff := cmp.Diff([]string{"system ada done: be kind", "user ada done: hello",
		"assistant echo done: hello yourself"}, texts); diff != "" {
		t.Error(diff)
	}
	if got := mustCall[mailroom.Message](f, "GET /v1/threads/t/messages/"+sent.Message,
		""); got.State != mailroom.MessageDone || got.Text != "hello" {
		t.Errorf("message: %+v", got)
	}
}

func TestThreadShowsItsStatus(t *testing.T) {
	f := start(t)
	show := func() api.Thread {
		t.Helper()
		got := mustCall[api.Thread](f, "GET /v1/threads/t", "")
		got.CreatedAt, got.UpdatedAt = time.Time{}, time.Time{}
		return got
	}
	one, two := f.submit("t", "one"), f.submit("t", "two")
	want := api.Thread{
		ID: "t", Agent: "echo", Owner: "admin", Status: api.ThreadQueued, LastSeq: 4, OldestSeq: 1,
		LatestRun: &two.Run, Queued: 2, Metadata: []byte(`{}`),
	}
	if diff := cmp.Diff(want, show()); diff != "" {
		t.Errorf("queued: %s", diff)
	}
	w := f.claim()
	want.Status, want.LastSeq, want.Queued, want.ActiveRun = api.ThreadRunning, 5, 1, &one.Run
	if diff := cmp.Diff(want, show()); diff != "" {
		t.Errorf("running: %s", diff)
	}
	f.settleRun(w, thread.OutcomeComplete, "")
	f.settleRun(f.claim(), thread.OutcomeComplete, "")
	want.Status, want.LastSeq, want.Queued, want.ActiveRun = api.ThreadIdle, 8, 0, nil
	if diff := cmp.Diff(want, show()); diff != "" {
		t.Errorf("idle: %s", diff)
	}
	patched := mustCall[api.Thread](f, "PATCH /v1/threads/t", `{"agent":"codex","metadata":{"title":"x"}}`)
	if patched.Agent != "codex" || string(patched.Metadata) != `{"title":"x"}` {
		t.Errorf("patched: %+v", patched)
	}
	f.submit("t", "three")
	if a := f.call("DELETE /v1/threads/t", ""); a.problem(t).Code != mailroom.CodeConflict {
		t.Errorf("deleting a busy thread: %d %s, want conflict", a.status, a.body)
	}
	f.settleRun(f.claim(), thread.OutcomeComplete, "")
	if a := f.call("DELETE /v1/threads/t", ""); a.status != 204 || a.body != "" {
		t.Errorf("deleting an idle thread: %d %s, want 204", a.status, a.body)
	}
	if got := f.snapshot(); got != "" {
		t.Errorf("rows after the deletion: %s", got)
	}
}

func TestEditAndRetractUntilRead(t *testing.T) {
	f := start(t)
	sent := f.submit("t", "one")
	path := "/v1/threads/t/messages/" + sent.Message
	if got := mustCall[mailroom.Message](f, "PATCH "+path, `{"text":"two"}`); got.Text != "two" ||
		got.State != mailroom.MessageAccepted {
		t.Errorf("edited: %+v", got)
	}
	f.claim()
	for _, route := range []string{"PATCH " + path, "DELETE " + path} {
		body := ""
		if route[0] == 'P' {
			body = `{"text":"three"}`
		}
		if a := f.call(route, body); a.problem(t).Code != mailroom.CodeConflict {
			t.Errorf("%s once read: %d %s, want conflict", route, a.status, a.body)
		}
	}
	next := f.submit("t", "oops")
	if a := f.call("DELETE /v1/threads/t/messages/"+next.Message, ""); a.status != 204 {
		t.Errorf("retract: %d %s, want 204", a.status, a.body)
	}
	run := mustCall[api.Run](f, "GET /v1/runs/"+next.Run, "")
	if run.Status != mailroom.StatusCancelled || run.Reason == nil || *run.Reason != mailroom.ReasonRetracted {
		t.Errorf("the run of a retracted message: %+v", run)
	}
	all := mustCall[api.Page[mailroom.Message]](f, "GET /v1/threads/t/messages?all=true", "")
	read := mustCall[api.Page[mailroom.Message]](f, "GET /v1/threads/t/messages", "")
	if len(all.Items) != 2 || len(read.Items) != 1 || read.Items[0].Text != "two" {
		t.Errorf("transcript %+v, with all %+v", read.Items, all.Items)
	}
}

func TestCancelStatuses(t *testing.T) {
	f := start(t)
	cancel := func(run string) (int, api.Run) {
		t.Helper()
		a := f.call("POST /v1/runs/"+run+"/cancel", "{}")
		if a.status > 299 {
			return a.status, api.Run{}
		}
		return a.status, mustCall[api.Run](f, "POST /v1/runs/"+run+"/cancel", "")
	}
	running := f.submit("t", "one")
	queued := f.submit("t", "two")
	w := f.claim()
	if status, run := cancel(queued.Run); status != 200 || run.Status != mailroom.StatusCancelled || run.Stopping {
		t.Errorf("queued: %d %+v, want 200 cancelled", status, run)
	}
	if status, run := cancel(running.Run); status != 202 || run.Status != mailroom.StatusRunning || !run.Stopping {
		t.Errorf("running: %d %+v, want 202 stopping", status, run)
	}
	f.settleRun(w, thread.OutcomeRelease, "")
	if status, run := cancel(running.Run); status != 200 || run.Status != mailroom.StatusCancelled || run.Stopping {
		t.Errorf("cancelled: %d %+v, want 200", status, run)
	}
	done := f.submit("t", "three")
	f.settleRun(f.claim(), thread.OutcomeComplete, "")
	if status, _ := cancel(done.Run); status != 409 {
		t.Errorf("completed: %d, want 409", status)
	}
}

func TestRetryQueuesADeadLetterAgain(t *testing.T) {
	f := start(t)
	sent := f.submit("t", "one")
	if a := f.call("POST /v1/runs/"+sent.Run+"/retry", ""); a.problem(t).Code != mailroom.CodeConflict {
		t.Errorf("retry of a queued run: %d %s, want conflict", a.status, a.body)
	}
	f.settleRun(f.claim(), thread.OutcomeFail, "")
	failed := mustCall[api.Run](f, "GET /v1/runs/"+sent.Run, "")
	if failed.Status != mailroom.StatusFailed || failed.Error == nil || failed.Error.Class != mailroom.ClassPermanent ||
		failed.ErrorGroup == nil || *failed.ErrorGroup != thread.ErrorGroup(failed.Error.Message) {
		t.Fatalf("failed: %+v", failed)
	}
	run := mustCall[api.Run](f, "POST /v1/runs/"+sent.Run+"/retry", `{"fresh":true,"agent_version":"same"}`)
	if run.Status != mailroom.StatusQueued || run.Attempt != 1 || run.Failures != 0 || run.ErrorGroup != nil ||
		run.Place <= failed.Place {
		t.Errorf("retried: %+v", run)
	}
}

func TestInterruptReportsWhatItStopped(t *testing.T) {
	f := start(t)
	one := f.submit("t", "one")
	f.claim()
	two := f.submit("t", "two")
	got := mustCall[api.Interrupted](f, "POST /v1/threads/t/interrupt", "")
	want := api.Interrupted{Superseded: []string{two.Run}, Stopping: &one.Run}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	f.submit("u", "one")
	f.call("POST /v1/threads/u/interrupt", "{}")
	got = mustCall[api.Interrupted](f, "POST /v1/threads/u/interrupt", "")
	if diff := cmp.Diff(api.Interrupted{Superseded: []string{}}, got); diff != "" {
		t.Errorf("an idle thread: %s", diff)
	}
}

func TestListsAreFilteredAndPaged(t *testing.T) {
	f := start(t)
	for i := range 7 {
		f.submit(fmt.Sprintf("t%d", i), "hello")
	}
	mustCall[store.Submitted](f, "POST /v1/threads/t1/messages",
		`{"text":"again","agent":"codex","key":"k 1","mode":"latest"}`)
	f.settleRun(f.claim(), thread.OutcomeFail, "")
	for _, tc := range []struct {
		list, q string
		want    []string
	}{
		{"threads", "", []string{"t6", "t5", "t4", "t3", "t2", "t1", "t0"}},
		{"threads", "agent:codex", []string{"t1"}},
		{"threads", "-agent:codex id:t*", []string{"t6", "t5", "t4", "t3", "t2", "t0"}},
		{"threads", "id:t3", []string{"t3"}},
		{"threads", "id:t3 agent:codex", nil},
		{"threads", "status:idle", []string{"t0"}},
		{"threads", "-status:queued", []string{"t0"}},
		{"runs", "", []string{"t1", "t6", "t5", "t4", "t3", "t2", "t1", "t0"}},
		{"runs", "status:queued", []string{"t1", "t6", "t5", "t4", "t3", "t2"}},
		{"runs", "thread:t1", []string{"t1", "t1"}},
		{"runs", "thread:t1 -status:cancelled", []string{"t1"}},
		{"runs", "agent:codex", []string{"t1"}},
		{"runs", "agent:code?", nil},
		{"runs", "reason:superseded", []string{"t1"}},
		{"runs", "class:permanent", []string{"t0"}},
		{"runs", `key:"k 1"`, []string{"t1"}},
		{"runs", "mode:l*t", []string{"t1"}},
		{"runs", `-key:"" status:queued`, []string{"t1"}},
		{"runs", "status:failed,queued", []string{"t1", "t6", "t5", "t4", "t3", "t2", "t0"}},
		{"runs", "status:failed,cancelled", []string{"t1", "t0"}},
		{"runs", "status:failed,completed", []string{"t0"}},
		{"runs", "-status:queued,cancelled", []string{"t0"}},
		{"runs", "thread:t2,t0", []string{"t2", "t0"}},
		{"runs", `thread:"t2,t0"`, nil},
		{"runs", "agent:co*,x reason:superseded,cancelled", nil},
		{"threads", "id:t1,t2", []string{"t2", "t1"}},
		{"threads", "agent:codex,echo status:idle", []string{"t0"}},
	} {
		for _, limit := range []int{1, 3, 7, 50} {
			got, pages := f.readPages(tc.list, tc.q, limit)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s %q, %d a page: %s", tc.list, tc.q, limit, diff)
			}
			if most := max(1, (len(tc.want)+limit-1)/limit); pages != most {
				t.Errorf("%s %q, %d a page: %d pages, want %d", tc.list, tc.q, limit, pages, most)
			}
		}
	}
	runs := mustCall[api.Page[api.Run]](f, "GET /v1/runs?limit=1", "")
	if a := f.call("GET /v1/threads?cursor="+*runs.Next, ""); a.status != 422 {
		t.Errorf("a cursor of another list: %d, want 422", a.status)
	}
}

// readPages reads a whole list page by page and returns its thread ids.
func (f *fixture) readPages(list, q string, limit int) (threads []string, pages int) {
	f.t.Helper()
	query := url.Values{"limit": {fmt.Sprint(limit)}}
	if q != "" {
		query.Set("q", q)
	}
	for {
		page := mustCall[api.Page[struct{ ID, Thread string }]](f, "GET /v1/"+list+"?"+query.Encode(), "")
		pages++
		if len(page.Items) > limit {
			f.t.Errorf("page of %d items, want at most %d", len(page.Items), limit)
		}
		for _, item := range page.Items {
			if list == "threads" {
				item.Thread = item.ID
			}
			threads = append(threads, item.Thread)
		}
		if page.Next == nil {
			return threads, pages
		}
		query.Set("cursor", *page.Next)
	}
}

func TestEntriesForwardAndBackward(t *testing.T) {
	f := start(t)
	for range 4 {
		f.submit("t", "hello")
	}
	read := func(query string) (seqs []int64, next string) {
		t.Helper()
		page := mustCall[api.Page[mailroom.Entry]](f, "GET /v1/threads/t/entries?"+query, "")
		for _, e := range page.Items {
			seqs = append(seqs, e.Seq)
		}
		if page.Next != nil {
			next = *page.Next
		}
		return seqs, next
	}
	for _, tc := range []struct {
		query string
		want  []int64
		next  string
	}{
		{"", []int64{1, 2, 3, 4, 5, 6, 7, 8}, ""},
		{"limit=3", []int64{1, 2, 3}, "3"},
		{"after=3&limit=3", []int64{4, 5, 6}, "6"},
		{"after=6&limit=3", []int64{7, 8}, ""},
		{"after=8", nil, ""},
		{"after=2&before=5", []int64{3, 4}, ""},
		{"before=9&limit=3", []int64{6, 7, 8}, "6"},
		{"before=6&limit=3", []int64{3, 4, 5}, "3"},
		{"before=3&limit=3", []int64{1, 2}, ""},
		{"kind=message", []int64{1, 3, 5, 7}, ""},
		{"kind=run.queued&after=4", []int64{6, 8}, ""},
		{"kind=run.queued&kind=message&limit=2", []int64{1, 2}, "2"},
		{"kind=run.queued,message&limit=2", []int64{1, 2}, "2"},
		{"kind=x.nothing", nil, ""},
	} {
		got, next := read(tc.query)
		if !slices.Equal(got, tc.want) || next != tc.next {
			t.Errorf("%q: %v, next %q; want %v, next %q", tc.query, got, next, tc.want, tc.next)
		}
	}
}

func TestWaitReturnsAtTheEndOfTheRunOrTheTimeout(t *testing.T) {
	f := start(t)
	sent := f.submit("t", "one")
	if run := mustCall[api.Run](f, "GET /v1/runs/"+sent.Run+"/wait?timeout=10ms",
		""); run.Status != mailroom.StatusQueued {
		t.Errorf("at the timeout: %s, want queued", run.Status)
	}
	if run := mustCall[api.Run](f, "GET /v1/runs/"+sent.Run+"/wait?timeout=0s", ""); run.Status != mailroom.StatusQueued {
		t.Errorf("without waiting: %s, want queued", run.Status)
	}
	got := make(chan api.Run, 1)
	begin := time.Now()
	go func() {
		var run api.Run
		if a := f.call("GET /v1/runs/"+sent.Run+"/wait?timeout=5m", ""); json.Unmarshal([]byte(a.body), &run) != nil {
			t.Errorf("waited: %d %s", a.status, a.body)
		}
		got <- run
	}()
	f.settleRun(f.claim(), thread.OutcomeComplete, "done")
	if run := <-got; run.Status != mailroom.StatusCompleted {
		t.Errorf("waited: %+v", run)
	}
	if took := time.Since(begin); took >= 5*time.Minute {
		t.Errorf("the wait returned at its timeout, not at the end of the run")
	}
}

func TestHeadIsAnsweredLikeGet(t *testing.T) {
	f := start(t)
	f.submit("t", "one")
	for path, want := range map[string]int{"/v1/threads/t": 200, "/v1/threads/t/stream": 200, "/v1/threads/u": 404,
		"/v1/threads/u/stream": 404} {
		if a := f.call("HEAD "+path, ""); a.status != want || a.body != "" {
			t.Errorf("HEAD %s: %d %q, want %d and no body", path, a.status, a.body, want)
		}
	}
}

func TestADeadlineIsATimeOrADurationFromTheAcceptance(t *testing.T) {
	f := start(t)
	deadline := func(given string) (api.Run, time.Duration) {
		t.Helper()
		sent := mustCall[store.Submitted](f, "POST /v1/messages", `{"text":"a","deadline":"`+given+`"}`)
		run := mustCall[api.Run](f, "GET /v1/runs/"+sent.Run, "")
		if run.Deadline == nil {
			t.Fatalf("the deadline %s is not on the run", given)
		}
		return run, run.Deadline.Sub(run.CreatedAt)
	}
	if _, left := deadline("1h30m"); left != 90*time.Minute {
		t.Errorf("1h30m: %v after the acceptance", left)
	}
	if run, _ := deadline("2099-01-31T18:00:00+01:00"); !run.Deadline.Equal(time.Date(2099, 1, 31, 17, 0, 0, 0,
		time.UTC)) {
		t.Errorf("a time: %v", run.Deadline)
	}
	for _, given := range []string{
		`"soon"`, `"0s"`, `"-5m"`, `"2000-01-01T00:00:00Z"`, `"900000h"`, `60`, `"1m","not_before":"2099-01-01T00:00:00Z"`,
	} {
		a := f.call("POST /v1/messages", `{"text":"a","deadline":`+given+`}`)
		if a.status != 422 || !strings.Contains(a.body, `"body.deadline"`) {
			t.Errorf("%s: %d %s, want 422 with body.deadline", given, a.status, a.body)
		}
	}
}
