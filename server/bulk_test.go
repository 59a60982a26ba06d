package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
	"mailroom/server"
	"mailroom/store"
	"mailroom/thread"
)

// failRun submits to thread and fails the run for good.
func (f *fixture) failRun(threadID, submit, why string) string {
	f.t.Helper()
	run := mustCall[store.Submitted](f, "POST /v1/threads/"+threadID+"/messages", submit).Run
	w := f.claim()
	f.settle(thread.Settle{
		Claim: w.Claim, Number: w.Run.Step + 1, Outcome: thread.OutcomeFail,
		Failure: &mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New(why)},
	})
	return run
}

func TestRunsAreFoundByEveryKey(t *testing.T) {
	f := start(t)
	parent := f.failRun("a", `{"text":"x","key":"order 7","metadata":{"team":"red","x.y":"1"}}`,
		`429: "rate limit" was met`)
	child := mustCall[store.Submitted](f, "POST /v1/threads/b/messages", `{"text":"x","agent":"codex","parent":"`+parent+
		`","mode":"latest"}`).Run
	gone := mustCall[store.Submitted](f, "POST /v1/threads/b/messages", `{"text":"x","metadata":{"team":"blue"}}`).Run
	f.call("POST /v1/runs/"+gone+"/cancel", "")
	today, tomorrow := time.Now().UTC().Format(time.DateOnly), time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	for _, tc := range []struct {
		q    string
		want []string
	}{
		{"parent:" + parent, []string{child}},
		{`parent:"" thread:*`, []string{gone, parent}},
		{`error:"rate limit"`, []string{parent}},
		{"error:429*", []string{parent}},
		{"error:limit*", nil},
		{`error:""`, []string{gone, child}},
		{"class:permanent agent:echo", []string{parent}},
		{`key:"order 7"`, []string{parent}},
		{"mode:latest", []string{child}},
		{"via:user", []string{gone, child, parent}},
		{"via:run", nil},
		{"reason:cancelled", []string{gone}},
		{"delivery:no", []string{gone, child, parent}},
		{"delivery:yes", nil},
		{"metadata.team:red", []string{parent}},
		{"metadata.team:*e*", []string{gone, parent}},
		{"metadata.x.y:1", []string{parent}},
		{"-metadata.team:red", []string{gone, child}},
		{"created:>=" + today, []string{gone, child, parent}},
		{"created:>" + tomorrow, nil},
		{"created:<2026-01-01", nil},
		{"created:2026-01-01.." + tomorrow, []string{gone, child, parent}},
		{"finished:*", []string{gone, parent}},
		{`finished:"" status:queued`, []string{child}},
		{"finished:<=" + tomorrow + " -status:failed", []string{gone}},
	} {
		page, err := f.client.Runs(t.Context(), client.ListQuery{Q: tc.q})
		if err != nil {
			t.Errorf("%s: %v", tc.q, err)
			continue
		}
		var got []string
		for _, r := range page.Items {
			got = append(got, r.ID)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.q, diff)
		}
	}
	for q, want := range map[string]int{"owner:admin": 2, "owner:me": 0, "updated:>=" + today: 2,
		"updated:>" + tomorrow: 0} {
		if page, err := f.client.Threads(t.Context(), client.ListQuery{Q: q}); err != nil || len(page.Items) != want {
			t.Errorf("%s finds %d threads, want %d (%v)", q, len(page.Items), want, err)
		}
	}
}

func TestDeadLettersAreRetriedByAFilterAfterADryRun(t *testing.T) {
	f := start(t)
	var want []string
	for i := range 50 {
		want = append(want, f.failRun(fmt.Sprintf("t%d", i%5), `{"text":"x"}`, "429: rate limit"))
	}
	other := f.failRun("t0", `{"text":"x"}`, "no such model")
	queued := f.submit("t0", "x").Run
	before := f.snapshot()
	q := api.RetryMany{Q: `error:"rate limit"`, DryRun: true}
	got, err := f.client.RetryRuns(t.Context(), q)
	if diff := cmp.Diff(api.Retried{Matched: 50}, got); diff != "" || err != nil {
		t.Errorf("dry: %v %s", err, diff)
	}
	if after := f.snapshot(); after != before {
		t.Errorf("a dry run wrote %s", after)
	}
	q.DryRun = false
	got, err = f.client.RetryRuns(t.Context(), q)
	if diff := cmp.Diff(api.Retried{Matched: 50, Retried: 50}, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	places := map[string][]int64{}
	for _, id := range want {
		r := mustCall[api.Run](f, "GET /v1/runs/"+id, "")
		if r.Status != mailroom.StatusQueued || r.Attempt != 1 || r.Failures != 0 {
			t.Errorf("retried: %+v", r)
		}
		places[r.Thread] = append(places[r.Thread], r.Place)
	}
	for thread, p := range places {
		if !slices.IsSorted(p) {
			t.Errorf("the runs of %s were retried out of their order: places %v", thread, p)
		}
	}
	if r := mustCall[api.Run](f, "GET /v1/runs/"+other, ""); r.Status != mailroom.StatusFailed {
		t.Errorf("a run with another error is %s, want failed", r.Status)
	}
	for _, all := range []string{"thread:*", "status:failed"} {
		got, err = f.client.RetryRuns(t.Context(), api.RetryMany{Q: all, DryRun: true})
		if diff := cmp.Diff(api.Retried{Matched: 1}, got); diff != "" || err != nil {
			t.Errorf("%s matches more than the failed run (%s is queued): %v %s", all, queued, err, diff)
		}
	}
	got, err = f.client.RetryRuns(t.Context(), api.RetryMany{Q: "status:queued"})
	if diff := cmp.Diff(api.Retried{}, got); diff != "" || err != nil {
		t.Errorf("queued runs: %v %s", err, diff)
	}
}

// In each thread the queued runs are cancelled before the running one, so that none of them starts.
func TestOpenRunsAreCancelledByAFilterNewestFirst(t *testing.T) {
	f := start(t)
	ended := f.failRun("t0", `{"text":"x"}`, "no")
	running := f.submit("t0", "x").Run
	f.claim()
	var queued []string
	for i := range 20 {
		queued = append(queued, f.submit(fmt.Sprintf("t%d", i%4), "x").Run)
	}
	other := mustCall[store.Submitted](f, "POST /v1/threads/other/messages", `{"text":"x","agent":"codex"}`).Run
	before := f.snapshot()
	q := api.CancelMany{Q: "agent:echo", DryRun: true}
	got, err := f.client.CancelRuns(t.Context(), q)
	if diff := cmp.Diff(api.CancelledMany{Matched: 21}, got); diff != "" || err != nil {
		t.Errorf("dry: %v %s", err, diff)
	}
	if after := f.snapshot(); after != before {
		t.Errorf("a dry run wrote %s", after)
	}
	q.DryRun = false
	got, err = f.client.CancelRuns(t.Context(), q)
	if diff := cmp.Diff(api.CancelledMany{Matched: 21, Cancelled: 21}, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	var last time.Time
	for i := range queued {
		r := mustCall[api.Run](f, "GET /v1/runs/"+queued[len(queued)-1-i], "")
		if r.Status != mailroom.StatusCancelled || r.Attempt != 0 {
			t.Errorf("a queued run was not cancelled before it started: %+v", r)
		}
		if r.Thread == "t0" {
			if r.FinishedAt.Before(last) {
				t.Errorf("%s was cancelled at %s, before a newer one at %s", r.ID, r.FinishedAt, last)
			}
			last = *r.FinishedAt
		}
	}
	if r := mustCall[api.Run](f, "GET /v1/runs/"+running, ""); !r.Stopping && r.Status != mailroom.StatusCancelled {
		t.Errorf("the running run goes on: %+v", r)
	}
	for run, want := range map[string]mailroom.Status{ended: mailroom.StatusFailed, other: mailroom.StatusQueued} {
		if r := mustCall[api.Run](f, "GET /v1/runs/"+run, ""); r.Status != want {
			t.Errorf("run %s is %s, want %s", run, r.Status, want)
		}
	}
	got, err = f.client.CancelRuns(t.Context(), api.CancelMany{Q: "status:failed"})
	if diff := cmp.Diff(api.CancelledMany{}, got); diff != "" || err != nil {
		t.Errorf("failed runs: %v %s", err, diff)
	}
}

// changedRuns refuses the retry of one run, as if the run had changed since the scan.
type changedRuns struct {
	server.Runs
	run  *string
	code mailroom.Code
}

func (c changedRuns) Retry(ctx context.Context, in thread.Retry) (*mailroom.Run, error) {
	if in.Run == *c.run {
		return nil, mailroom.Errorf(c.code, "refused")
	}
	return c.Runs.Retry(ctx, in)
}

func TestARetryByFilterSkipsRunsThatHaveChanged(t *testing.T) {
	var run string
	for code, status := range map[mailroom.Code]int{mailroom.CodeConflict: 200, mailroom.CodeNotFound: 200,
		mailroom.CodeUnavailable: 503} {
		f := start(t, func(o *server.Options) { o.Ledger.Runs = changedRuns{o.Ledger.Runs, &run, code} })
		run = f.failRun("t", `{"text":"x"}`, "no")
		f.failRun("t", `{"text":"x"}`, "no")
		a := f.call("POST /v1/runs/retry", `{"q":"status:failed"}`)
		if a.status != status {
			t.Errorf("%s: %d %s, want %d", code, a.status, a.body, status)
		}
		if want := `{"matched":2,"retried":1,"next":null}` + "\n"; status == 200 && a.body != want {
			t.Errorf("%s: %s, want %s", code, a.body, want)
		}
	}
}

func TestCancelWithChildrenEndsOpenDescendants(t *testing.T) {
	f := start(t)
	parent := f.submit("a", "x").Run
	send := func(thread, from string) string {
		t.Helper()
		return mustCall[store.Submitted](f, "POST /v1/threads/"+thread+"/messages", `{"text":"x","parent":"`+from+`"}`).Run
	}
	child := send("b", parent)
	grandchild := send("c", child)
	other := f.submit("b", "x").Run
	status := func(run string) mailroom.Status { return mustCall[api.Run](f, "GET /v1/runs/"+run, "").Status }

	lone := send("d", child)
	f.call("POST /v1/runs/"+child+"/cancel", `{"children":false}`)
	if status(child) != mailroom.StatusCancelled || status(grandchild) != mailroom.StatusQueued {
		t.Errorf("cancel without children: run is %s, child %s", status(child), status(grandchild))
	}
	f.call("POST /v1/runs/"+child+"/retry", "")
	got, err := f.client.CancelTree(t.Context(), parent)
	if err != nil || got.Status != mailroom.StatusCancelled {
		t.Fatalf("cancelled: %+v, %v", got, err)
	}
	for _, run := range []string{parent, child, grandchild, lone} {
		if status(run) != mailroom.StatusCancelled {
			t.Errorf("cancel with children: descendant is %s", status(run))
		}
	}
	if status(other) != mailroom.StatusQueued {
		t.Errorf("an unrelated run is %s", status(other))
	}
}

func TestUsageAndProgressAreShown(t *testing.T) {
	f := start(t)
	run := f.submit("t", "x").Run
	w := f.claim()
	if got := mustCall[api.Run](f, "GET /v1/runs/"+run, ""); got.Usage != nil || got.Progress != 0 {
		t.Errorf("before a step: %+v, %v", got.Usage, got.Progress)
	}
	_, err := f.ledger.Workers().Append(t.Context(), thread.StepCommit{Claim: w.Claim, Number: 1, Step: mailroom.Step{
		Name: "think", Progress: 0.5, Usage: mailroom.Usage{InputTokens: 7, CostUSD: 0.5},
	}})
	if err != nil {
		t.Fatal(err)
	}
	got := mustCall[api.Run](f, "GET /v1/runs/"+run, "")
	if diff := cmp.Diff(&api.Usage{InputTokens: 7, CostUSD: 0.5}, got.Usage); diff != "" || got.Progress != 0.5 {
		t.Errorf("progress %v, usage %s", got.Progress, diff)
	}
}

func TestDeliveriesAreFoundByAKey(t *testing.T) {
	f := start(t)
	f.submit("out", "x")
	f.call("POST /v1/threads/out/interrupt", "")
	f.submit("chat", "x")
	mustCall[api.Thread](f, "PATCH /v1/threads/chat", `{"deliver_to":"out"}`)
	w := f.claim()
	f.settleRun(w, thread.OutcomeComplete, "the reply")
	for q, want := range map[string][]string{
		"delivery:yes": {"out"}, "delivery:no": {"chat", "out"}, "-delivery:yes": {"chat", "out"},
		"delivery:no%20status:completed": {"chat"},
	} {
		if got := f.listThreads("runs", q, 50); !slices.Equal(got, want) {
			t.Errorf("%s: runs of threads %q, want %q", q, got, want)
		}
	}
}

func TestADeliveryThreadHasNoDeliverTo(t *testing.T) {
	f := start(t)
	for _, thread := range []string{"chat", "out", "other", "far"} {
		f.submit(thread, "x")
	}
	patch := func(thread, to string) response {
		return f.call("PATCH /v1/threads/"+thread, `{"deliver_to":"`+to+`"}`)
	}
	if got := mustCall[api.Thread](f, "PATCH /v1/threads/chat", `{"deliver_to":" out "}`); got.DeliverTo == nil ||
		*got.DeliverTo != "out" {
		t.Errorf("delivers to %v, want out", got.DeliverTo)
	}
	if a := patch("other", "new"); a.status != 200 {
		t.Errorf("deliver_to a missing thread: %d %s", a.status, a.body)
	}
	f.wantCode("to itself", patch("far", "far"), 422, mailroom.CodeInvalid)
	f.wantCode("to no id", patch("far", "a/b"), 422, mailroom.CodeInvalid)
	f.wantCode("of a delivery thread", patch("out", "far"), 409, mailroom.CodeConflict)
	f.wantCode("to one that delivers itself", patch("far", "chat"), 409, mailroom.CodeConflict)
	f.wantCode("of no thread", patch("none", "far"), 404, mailroom.CodeNotFound)
	if got := mustCall[api.Thread](f, "PATCH /v1/threads/chat", `{"deliver_to":""}`); got.DeliverTo != nil {
		t.Errorf("deliver_to after clearing: %s", *got.DeliverTo)
	}
	if a := patch("out", "far"); a.status != 200 {
		t.Errorf("delete of a thread that is no delivery target: %d %s", a.status, a.body)
	}
	for range 3 {
		f.settleRun(f.claim(), thread.OutcomeComplete, "a reply")
	}
	page, err := f.client.Messages(t.Context(), "far", client.MessagesQuery{All: true})
	if err != nil || len(page.Items) < 2 {
		t.Errorf("delivered: %+v, %v", page.Items, err)
	}
}

// A run that waits for its next attempt is found by the error of the last one, as a dead letter is.
func TestARunThatWaitsForARetryShowsTheErrorOfItsLastAttempt(t *testing.T) {
	f := start(t)
	dead := f.failRun("a", `{"text":"x"}`, "429: rate limit")
	run := mustCall[store.Submitted](f, "POST /v1/threads/b/messages", `{"text":"x"}`).Run
	other := mustCall[store.Submitted](f, "POST /v1/threads/c/messages",
		`{"text":"x","not_before":"2999-01-01T00:00:00Z"}`).Run
	w := f.claim()
	f.settle(thread.Settle{
		Claim: w.Claim, Number: w.Run.Step + 1, Outcome: thread.OutcomeFail,
		Failure: &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("503: the model is down"),
			RetryAfter: time.Hour},
	})
	r := mustCall[api.Run](f, "GET /v1/runs/"+run, "")
	want := &mailroom.RunError{Class: mailroom.ClassUnavailable, Message: "503: the model is down"}
	if diff := cmp.Diff(want, r.LastError); diff != "" || r.Status != mailroom.StatusQueued || r.Attempt != 1 ||
		r.Error != nil {
		t.Errorf("%s, attempt %d, error %v, last error %s", r.Status, r.Attempt, r.Error, diff)
	}
	if wait := time.Until(r.AvailableAt); wait < 30*time.Minute || wait > 2*time.Hour {
		t.Errorf("the next try is in %v, want in an hour", wait)
	}
	for q, want := range map[string][]string{
		"class:unavailable": {run}, `error:"is down"`: {run}, "class:unavailable,permanent": {run, dead},
		"status:queued class:*able": {run},
		"status:queued":             {other, run}, `class:""`: {other}, "-class:unavailable": {other, dead},
		"class:unavailable status:completed": nil,
	} {
		page, err := f.client.Runs(t.Context(), client.ListQuery{Q: q})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range page.Items {
			got = append(got, r.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", q, diff)
		}
		if n, more, err := f.client.CountRuns(t.Context(), q, 100); n != len(want) || more || err != nil {
			t.Errorf("%s: counted %d (more: %v, error %v), want %d", q, n, more, err, len(want))
		}
	}
	f.call("POST /v1/runs/"+run+"/cancel", "")
	if r := mustCall[api.Run](f, "GET /v1/runs/"+run, ""); r.LastError != nil {
		t.Errorf("a cancelled run has the last error %v: it waits for nothing", r.LastError)
	}
}

// The id of a thread in place of a run's cancels the current run and nothing else.
func TestCancelOfAThreadEndsItsCurrentRunOnly(t *testing.T) {
	f := start(t)
	run := f.submit("t", "one").Run
	next := f.submit("t", "two").Run
	if a := f.call("POST /v1/runs/t/cancel", ""); a.status != 409 {
		t.Errorf("a thread without a current run: %d, want 409", a.status)
	}
	w := f.claim()
	if a := f.call("POST /v1/runs/t/cancel", ""); a.status != 202 {
		t.Errorf("got %d %s, want 202", a.status, a.body)
	}
	f.settle(thread.Settle{Claim: w.Claim, Number: w.Run.Step + 1, Outcome: thread.OutcomeRelease})
	if r := mustCall[api.Run](f, "GET /v1/runs/"+run, ""); r.Status != mailroom.StatusCancelled {
		t.Errorf("the current run is %s", r.Status)
	}
	if r := mustCall[api.Run](f, "GET /v1/runs/"+next, ""); r.Status != mailroom.StatusQueued {
		t.Errorf("the queued run is %s", r.Status)
	}
	if a := f.call("POST /v1/runs/nothing/cancel", ""); a.status != 404 {
		t.Errorf("neither a run nor a thread: %d, want 404", a.status)
	}
}
