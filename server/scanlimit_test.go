package server_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/client"
	"mailroom/server"
	"mailroom/server/internal/request"
	"mailroom/store"
)

// addFailedRuns writes a thread with failed runs; every third has another error.
func (f *fixture) addFailedRuns(thread string, runs int) {
	f.t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	row := &mailroom.Thread{ID: thread, Agent: "echo", Owner: auth.Operator, FirstSeq: 1, NextPlace: 1, CreatedAt: at,
		UpdatedAt: at}
	c := &store.Changes{Threads: []*mailroom.Thread{row}}
	for i := range runs {
		r := &mailroom.Run{
			ID: fmt.Sprintf("%s-%d", thread, i), Thread: thread, Agent: "echo", Status: mailroom.StatusFailed, CreatedAt: at,
			FinishedAt: at,
			Error:      &mailroom.RunError{Class: mailroom.ClassPermanent, Message: "busy"},
		}
		if i%3 == 0 {
			r.Error.Message = "no model"
		}
		c.Runs = append(c.Runs, r)
	}
	if err := f.store.Update(f.t.Context(), func(tx store.Tx) error { return tx.Write(c) }); err != nil {
		f.t.Fatal(err)
	}
}

func TestARetryScansABoundedPartAndReturnsACursor(t *testing.T) {
	const runs, most = 6000, 5000
	f := start(t)
	f.addFailedRuns("t", runs)
	q := api.RetryMany{Q: `error:"no model"`, DryRun: true}
	matched, requests := 0, 0
	for end := false; !end; requests++ {
		got, err := f.client.RetryRuns(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if got.Matched > most/3+1 {
			t.Errorf("one request found %d runs, more than a third of the %d that it may scan", got.Matched, most)
		}
		matched += got.Matched
		if end = got.Next == nil; !end {
			q.Cursor = *got.Next
		}
	}
	if matched != runs/3 || requests != 2 {
		t.Errorf("got %d runs in %d requests, want %d in 2", matched, requests, runs/3)
	}
	a := f.call("POST /v1/runs/retry", `{"q":"status:failed","cursor":"made up"}`)
	f.wantCode("a made up cursor", a, 422, mailroom.CodeInvalid)
}

// recordingViewer records the run queries of views.
type recordingViewer struct {
	request.Viewer
	runs *[]store.RunQuery
}

type recordingReader struct {
	store.Reader
	runs *[]store.RunQuery
}

func (a recordingViewer) View(ctx context.Context, f func(store.Reader) error) error {
	return a.Viewer.View(ctx, func(r store.Reader) error { return f(recordingReader{r, a.runs}) })
}

func (r recordingReader) Runs(q store.RunQuery) ([]*mailroom.Run, error) {
	*r.runs = append(*r.runs, q)
	return r.Reader.Runs(q)
}

// TestARunFilterQueriesOneIndex: with a second condition the store would skip rows without
// counting them.
func TestARunFilterQueriesOneIndex(t *testing.T) {
	var asked []store.RunQuery
	f := start(t, func(o *server.Options) { o.Ledger.Viewer = recordingViewer{o.Ledger.Viewer, &asked} })
	status := func(s mailroom.Status) []mailroom.Status { return []mailroom.Status{s} }
	for q, want := range map[string]store.RunQuery{
		"":                                    {},
		"status:failed":                       {Statuses: status(mailroom.StatusFailed)},
		"status:failed agent:echo":            {Statuses: status(mailroom.StatusFailed)},
		"status:completed agent:echo":         {Agent: "echo"},
		"owner:ann":                           {Owner: "ann"},
		"owner:a* group:f*":                   {},
		"-owner:ann -group:f1 -agent:echo":    {},
		"group:f1 status:failed owner:ann":    {Group: "f1"},
		"thread:t group:f1":                   {Thread: "t"},
		"status:completed":                    {},
		"agent:echo":                          {Agent: "echo"},
		"thread:t agent:echo status:running":  {Thread: "t"},
		"parent:p thread:t agent:echo mode:x": {Parent: "p"},
	} {
		asked = nil
		if _, err := f.client.Runs(t.Context(), client.ListQuery{Q: q}); err != nil {
			t.Fatal(err)
		}
		got := asked[0]
		if got.Limit == 0 || got.Bytes == 0 {
			t.Errorf("%q: the query has no limit: %+v", q, got)
		}
		got.Limit, got.Bytes = 0, 0
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", q, diff)
		}
	}
}

// maxScanned is how many rows a list reads for one request.
const maxScanned = 2000

// addRuns writes a thread of owner with runs that have completed, one created each second from at.
func (f *fixture) addRuns(thread, owner string, at time.Time, runs int) {
	f.t.Helper()
	row := &mailroom.Thread{ID: thread, Agent: "echo", Owner: owner, FirstSeq: 1, NextPlace: 1, CreatedAt: at,
		UpdatedAt: at}
	c := &store.Changes{Threads: []*mailroom.Thread{row}}
	for i := range runs {
		created := at.Add(time.Duration(i) * time.Second)
		c.Runs = append(c.Runs, &mailroom.Run{
			ID: fmt.Sprintf("%s-%d", thread, i), Thread: thread, Agent: "echo", Status: mailroom.StatusCompleted,
			CreatedAt: created, FinishedAt: created,
		})
	}
	if err := f.store.Update(f.t.Context(), func(tx store.Tx) error { return tx.Write(c) }); err != nil {
		f.t.Fatal(err)
	}
}

// TestAShortPageSaysHowFarItLooked follows a list that matches only its oldest run.
func TestAShortPageSaysHowFarItLooked(t *testing.T) {
	const runs = 2*maxScanned + 100
	f := start(t)
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.addRuns("t", auth.Operator, begin, runs)
	at := func(run int) *time.Time { at := begin.Add(time.Duration(run) * time.Second); return &at }
	q := client.ListQuery{Q: "status:completed finished:2026-01-02T03:04:05Z"}
	for i, want := range []*time.Time{at(runs - maxScanned), at(runs - 2*maxScanned), nil} {
		page, err := f.client.Runs(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, page.LookedTo); diff != "" || (page.Next == nil) != (want == nil) ||
			(len(page.Items) == 1) != (want == nil) {
			t.Errorf("page %d has %d runs and looked to (-want +got):\n%s", i+1, len(page.Items), diff)
		}
		if page.Next != nil {
			q.Cursor = *page.Next
		}
	}
	page, err := f.client.Runs(t.Context(), client.ListQuery{Q: "status:completed", Limit: 10})
	if err != nil || len(page.Items) != 10 || page.Next == nil || page.LookedTo != nil {
		t.Errorf("a full page has %d runs and looked to %v (%v), want 10 and nothing", len(page.Items), page.LookedTo, err)
	}
}

// TestDecidedTicketsAreReadInBoundedParts: a store must not skip tickets that it has no index for.
func TestDecidedTicketsAreReadInBoundedParts(t *testing.T) {
	f := start(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := &store.Changes{
		Threads: []*mailroom.Thread{{ID: "t", Agent: "echo", Owner: auth.Operator, FirstSeq: 1, NextPlace: 1, CreatedAt: at,
			UpdatedAt: at}},
		Runs: []*mailroom.Run{{ID: "r", Thread: "t", Agent: "echo", Status: mailroom.StatusCompleted, CreatedAt: at,
			FinishedAt: at}},
	}
	for i := range maxScanned + 100 {
		k := &mailroom.Ticket{ID: fmt.Sprint("k", i), Thread: "t", Run: "r", Name: fmt.Sprint(i), Kind: mailroom.TicketTimer,
			State: mailroom.TicketDecided, DecidedAt: &at}
		if i == 0 {
			k.Kind = mailroom.TicketInput
		}
		c.Tickets = append(c.Tickets, k)
	}
	if err := f.store.Update(t.Context(), func(tx store.Tx) error { return tx.Write(c) }); err != nil {
		t.Fatal(err)
	}
	for _, filter := range []string{"state:decided kind:input", "kind:input", "thread:t state:decided kind:input"} {
		q := client.ListQuery{Q: filter}
		page, err := f.client.Tickets(t.Context(), q)
		if err != nil || len(page.Items) != 0 || page.Next == nil {
			t.Fatalf("%s: the first page has %d tickets and next %v (%v), want none and a next", filter, len(page.Items),
				page.Next, err)
		}
		q.Cursor = *page.Next
		page, err = f.client.Tickets(t.Context(), q)
		if err != nil || len(page.Items) != 1 || page.Next != nil {
			t.Errorf("%s: the second page has %d tickets and next %v (%v), want the last one", filter, len(page.Items),
				page.Next, err)
		}
	}
}

// TestAFilterByTimeReadsOnlyRunsOfThatTime counts how many batches of rows the server reads for a range of created: it
// reads neither newer nor older runs.
func TestAFilterByTimeReadsOnlyRunsOfThatTime(t *testing.T) {
	const runs = 3 * maxScanned
	var asked []store.RunQuery
	f := start(t, func(o *server.Options) { o.Ledger.Viewer = recordingViewer{o.Ledger.Viewer, &asked} })
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.addRuns("t", auth.Operator, begin, runs)
	middle := begin.Add(runs / 2 * time.Second)
	second := func(n int) string { return middle.Add(time.Duration(n) * time.Second).Format(time.RFC3339) }
	for q, want := range map[string]struct{ runs, batches int }{
		"created:" + second(0) + ".." + second(59):                      {60, 1},
		"agent:echo created:" + second(0) + ".." + second(59):           {60, 1},
		"thread:t created:" + second(0) + ".." + second(59):             {60, 1},
		"created:>=" + second(0) + " created:<" + second(1):             {1, 1},
		"created:<" + begin.Add(10*time.Second).Format(time.RFC3339):    {10, 2}, // the last one is empty
		"created:<" + begin.Format(time.RFC3339):                        {0, 2},
		"created:>" + second(runs):                                      {0, 1},
		"created:>=" + second(0) + " created:<" + second(0):             {0, 1},
		"key:none created:" + second(0) + ".." + second(59):             {0, 1},
		"created:>" + second(0) + " created:<" + second(60) + " mode:x": {0, 1},
	} {
		asked = nil
		page, err := f.client.Runs(t.Context(), client.ListQuery{Q: q, Limit: 500})
		if err != nil || len(page.Items) != want.runs || page.Next != nil {
			t.Errorf("%q: %d runs and next %v (%v), want %d and no next", q, len(page.Items), page.Next, err, want.runs)
		}
		batches := 0
		for _, a := range asked {
			if a.Limit > 1 {
				batches++
			}
		}
		if batches != want.batches {
			t.Errorf("%q: %d batches of rows, want %d", q, batches, want.batches)
		}
	}
}

// TestARangeOfTimeIsReadInPages compares the runs on the pages of a range with the runs that match among all.
func TestARangeOfTimeIsReadInPages(t *testing.T) {
	const runs = 3000
	f := start(t)
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.addRuns("t", auth.Operator, begin, runs)
	from, to := begin.Add(100*time.Second), begin.Add(2799*time.Second)
	q := client.ListQuery{Q: "created:" + from.Format(time.RFC3339) + ".." + to.Format(time.RFC3339), Limit: 500}
	got, pages := 0, 0
	for end := false; !end; pages++ {
		page, err := f.client.Runs(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Items {
			if want := fmt.Sprint("t-", 2799-got); r.ID != want {
				t.Fatalf("run %d is %s, want %s", got, r.ID, want)
			}
			got++
		}
		if end = page.Next == nil; !end {
			q.Cursor = *page.Next
		}
	}
	if got != 2700 || pages != 6 {
		t.Errorf("%d runs in %d pages, want 2700 in 6", got, pages)
	}
}

// TestABulkOperationReadsTheRunsOfItsTime: the failures of an hour are retried without a scan of older ones.
func TestABulkOperationReadsTheRunsOfItsTime(t *testing.T) {
	const runs = 6000
	f := start(t)
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.addRuns("t", auth.Operator, begin, runs)
	ten := func(first int) string {
		at := begin.Add(time.Duration(first) * time.Second)
		return "thread:t created:" + at.Format(time.RFC3339) + ".." + at.Add(9*time.Second).Format(time.RFC3339)
	}
	f.changeRuns("t", mailroom.StatusFailed)
	retry, err := f.client.RetryRuns(t.Context(), api.RetryMany{Q: ten(runs - 500), DryRun: true})
	if err != nil || retry.Matched != 10 || retry.Next != nil {
		t.Errorf("retry: %d runs and next %v (%v), want 10 and no next", retry.Matched, retry.Next, err)
	}
	f.changeRuns("t", mailroom.StatusQueued)
	cancel, err := f.client.CancelRuns(t.Context(), api.CancelMany{Q: ten(500), DryRun: true})
	if err != nil || cancel.Matched != 10 || cancel.Next != nil {
		t.Errorf("cancel: %d runs and next %v (%v), want 10 and no next", cancel.Matched, cancel.Next, err)
	}
}

// changeRuns sets the status of all runs of a thread.
func (f *fixture) changeRuns(thread string, to mailroom.Status) {
	f.t.Helper()
	err := f.store.Update(f.t.Context(), func(tx store.Tx) error {
		runs, err := tx.Runs(store.RunQuery{Thread: thread})
		if err != nil {
			return err
		}
		for _, r := range runs {
			r.Status = to
		}
		return tx.Write(&store.Changes{Runs: runs})
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// addOwnedRuns writes 20 failed runs of agent echo and 3 completed ones of agent rare for ann, and 5 completed
// runs and 2 failed ones of echo for bob. The failed ones have the error group f1.
func (f *fixture) addOwnedRuns() {
	f.t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := &store.Changes{}
	add := func(owner, agent string, status mailroom.Status, n int) {
		row := &mailroom.Thread{ID: owner + "-" + agent + "-" + string(status), Agent: agent, Owner: owner, FirstSeq: 1,
			NextPlace: 1, CreatedAt: at, UpdatedAt: at}
		c.Threads = append(c.Threads, row)
		for i := range n {
			r := &mailroom.Run{ID: fmt.Sprint(row.ID, i), Thread: row.ID, Agent: agent, Status: status, CreatedAt: at,
				FinishedAt: at}
			if status == mailroom.StatusFailed {
				r.Error, r.ErrorGroup = &mailroom.RunError{Class: mailroom.ClassPermanent, Message: "busy"}, "f1"
			}
			c.Runs = append(c.Runs, r)
		}
	}
	add("ann", "echo", mailroom.StatusFailed, 20)
	add("ann", "rare", mailroom.StatusCompleted, 3)
	add("bob", "echo", mailroom.StatusCompleted, 5)
	add("bob", "echo", mailroom.StatusFailed, 2)
	if err := f.store.Update(f.t.Context(), func(tx store.Tx) error { return tx.Write(c) }); err != nil {
		f.t.Fatal(err)
	}
}

func TestARunFilterQueriesTheConditionWithTheFewestRows(t *testing.T) {
	var asked []store.RunQuery
	f := start(t, func(o *server.Options) { o.Ledger.Viewer = recordingViewer{o.Ledger.Viewer, &asked} })
	f.addOwnedRuns()
	bob := f.withToken(f.createToken("bob", "", scopesWithout(auth.PermissionAdmin)...))
	failed := []mailroom.Status{mailroom.StatusFailed}
	for _, c := range []struct {
		f     *fixture
		q     string
		want  store.RunQuery
		items int
	}{
		{f, "status:failed agent:rare", store.RunQuery{Agent: "rare"}, 0},
		{f, "status:failed agent:echo", store.RunQuery{Statuses: failed}, 22},
		{f, "status:failed owner:bob", store.RunQuery{Owner: "bob"}, 2},
		{f, "owner:ann agent:echo", store.RunQuery{Owner: "ann"}, 20},
		{f, "owner:ann agent:rare", store.RunQuery{Agent: "rare"}, 3},
		{f, "owner:ann status:completed", store.RunQuery{Owner: "ann"}, 3},
		{f, "owner:bob group:f1", store.RunQuery{Group: "f1"}, 2},
		{bob, "", store.RunQuery{Owner: "bob"}, 7},
		{bob, "owner:ann", store.RunQuery{Owner: "bob"}, 0},
		{bob, "status:failed", store.RunQuery{Owner: "bob"}, 2},
		{bob, "agent:rare", store.RunQuery{Owner: "bob"}, 0},
		{bob, "group:f1", store.RunQuery{Owner: "bob", Group: "f1"}, 2},
	} {
		asked = nil
		page := mustCall[api.Page[api.Run]](c.f, "GET /v1/runs?q="+url.QueryEscape(c.q), "")
		got := asked[0]
		got.Limit, got.Bytes = 0, 0
		if diff := cmp.Diff(c.want, got); diff != "" || len(page.Items) != c.items {
			t.Errorf("%q: got %d runs, want %d (-want +got):\n%s", c.q, len(page.Items), c.items, diff)
		}
	}

	asked = nil
	retried := mustCall[api.Retried](f, "POST /v1/runs/retry", `{"q":"owner:bob","dry_run":true}`)
	if got := asked[0]; retried.Matched != 2 || got.Owner != "bob" || !got.Oldest || len(got.Statuses) > 0 {
		t.Errorf("a retry of bob's runs matches %d by the query %+v, want 2 by owner, oldest first", retried.Matched, got)
	}
}

// recordingThreads records the queries for lists of threads.
type recordingThreads struct {
	request.Viewer
	asked *[]store.ThreadQuery
}

type recordingThreadsReader struct {
	store.Reader
	asked *[]store.ThreadQuery
}

func (a recordingThreads) View(ctx context.Context, f func(store.Reader) error) error {
	return a.Viewer.View(ctx, func(r store.Reader) error { return f(recordingThreadsReader{r, a.asked}) })
}

func (r recordingThreadsReader) Threads(q store.ThreadQuery) ([]*mailroom.Thread, error) {
	if len(q.IDs) == 0 {
		*r.asked = append(*r.asked, q)
	}
	return r.Reader.Threads(q)
}

func TestAThreadFilterQueriesOneIndex(t *testing.T) {
	var asked []store.ThreadQuery
	f := start(t, func(o *server.Options) { o.Ledger.Viewer = recordingThreads{o.Ledger.Viewer, &asked} })
	f.addOwnedRuns()
	bob := f.withToken(f.createToken("bob", "", scopesWithout(auth.PermissionAdmin)...))
	for _, c := range []struct {
		f     *fixture
		q     string
		want  store.ThreadQuery
		items int
	}{
		{f, "", store.ThreadQuery{}, 4},
		{f, "owner:ann agent:rare", store.ThreadQuery{Owner: "ann"}, 1},
		{f, "agent:rare", store.ThreadQuery{Agent: "rare"}, 1},
		{f, "agent:r*", store.ThreadQuery{}, 1},
		{bob, "", store.ThreadQuery{Owner: "bob"}, 2},
		{bob, "agent:rare", store.ThreadQuery{Owner: "bob"}, 0},
		{bob, "owner:ann", store.ThreadQuery{Owner: "bob"}, 0},
	} {
		asked = nil
		page := mustCall[api.Page[api.Thread]](c.f, "GET /v1/threads?q="+url.QueryEscape(c.q), "")
		got := asked[0]
		got.Limit, got.Bytes = 0, 0
		if diff := cmp.Diff(c.want, got); diff != "" || len(page.Items) != c.items {
			t.Errorf("%q: got %d threads, want %d (-want +got):\n%s", c.q, len(page.Items), c.items, diff)
		}
	}
}
