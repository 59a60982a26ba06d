package server_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/client"
	"mailroom/server"
	"mailroom/store"
)

// addFailedRuns writes a thread with failed runs; every third has another error.
func (f *fixture) addFailedRuns(thread string, runs int) {
	f.t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	row := &mailroom.Thread{ID: thread, Agent: "echo", Owner: auth.Operator, FirstSeq: 1, NextPlace: 1, CreatedAt: at, UpdatedAt: at}
	c := &store.Changes{Threads: []*mailroom.Thread{row}}
	for i := range runs {
		r := &mailroom.Run{
			ID: fmt.Sprintf("%s-%d", thread, i), Thread: thread, Agent: "echo", Status: mailroom.StatusFailed, CreatedAt: at, FinishedAt: at,
			Error: &mailroom.RunError{Class: mailroom.ClassPermanent, Message: "busy"},
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
	server.Viewer
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
