package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server"
	"mailroom/server/internal/request"
	"mailroom/store"
	"mailroom/thread"
)

// titles returns the titles of the listed runs by their ids.
func (f *fixture) titles() map[string]string {
	f.t.Helper()
	out := map[string]string{}
	for _, r := range mustCall[api.Page[api.Run]](f, "GET /v1/runs", "").Items {
		out[r.ID] = r.Title
	}
	return out
}

func TestAListOfRunsSaysWhatWasAsked(t *testing.T) {
	f := start(t)
	long := strings.Repeat("word ", 300)
	ended := f.submit("a", "## Deploy\n\n**release** [7](https://x.y) of `api`").Run
	f.settleRun(f.claim(), thread.OutcomeComplete, "done")
	failed := f.submit("a", long).Run
	f.settleRun(f.claim(), thread.OutcomeFail, "")
	file := mustCall[store.Submitted](f, "POST /v1/threads/f/messages",
		`{"parts":[{"type":"file","uri":"https://x.y/z","name":"plan.pdf"}]}`).Run
	f.claim()
	edited := f.submit("e", "first").Run
	message := mustCall[api.Run](f, "GET /v1/runs/"+edited, "").Messages[0]
	f.call("PATCH /v1/threads/e/messages/"+message, `{"text":"second *words*"}`)
	retracted := f.submit("r", "never mind").Run
	message = mustCall[api.Run](f, "GET /v1/runs/"+retracted, "").Messages[0]
	f.call("DELETE /v1/threads/r/messages/"+message, "")
	queued := f.submit("q", "> waits").Run
	for _, th := range mustCall[api.Page[api.Thread]](f, "GET /v1/threads", "").Items {
		want := map[string]string{"a": long[:199] + "…", "f": "plan.pdf", "e": "second words", "r": "", "q": "waits"}[th.ID]
		if th.Title != want {
			t.Errorf("thread %s has the title %q, want %q", th.ID, th.Title, want)
		}
	}
	ann := f.withToken(f.createToken("ann", "", auth.PermissionRead, auth.PermissionSubmit))
	hers := ann.submit("hers", "mine").Run
	got := f.titles()
	for run, want := range map[string]string{
		ended: "Deploy release 7 of api", failed: long[:199] + "…", file: "plan.pdf", edited: "second words", retracted: "",
		queued: "waits", hers: "mine",
	} {
		if got[run] != want {
			t.Errorf("got %q, want %q", got[run], want)
		}
	}
	if got := ann.titles(); len(got) != 1 || got[hers] != "mine" {
		t.Errorf("another token sees %q", got)
	}
	if one := mustCall[api.Run](f, "GET /v1/runs/"+ended, ""); one.Title != "" {
		t.Errorf("a run alone has the title %q", one.Title)
	}
}

// countedEntries counts the queries for entries, and the bytes that they read.
type countedEntries struct {
	request.Viewer
	queries, bytes *int
}

type countedEntriesReader struct {
	store.Reader
	counted countedEntries
}

func (c countedEntries) View(ctx context.Context, f func(store.Reader) error) error {
	return c.Viewer.View(ctx, func(r store.Reader) error { return f(countedEntriesReader{r, c}) })
}

func (r countedEntriesReader) Entries(q store.EntryQuery) ([]mailroom.Entry, error) {
	found, err := r.Reader.Entries(q)
	*r.counted.queries++
	for _, e := range found {
		*r.counted.bytes += len(e.Raw)
	}
	return found, err
}

func TestTitlesOfAPageAreReadInOneBoundedStep(t *testing.T) {
	queries, bytes := 0, 0
	f := start(t, func(o *server.Options) {
		o.Ledger.Viewer = countedEntries{o.Ledger.Viewer, &queries, &bytes}
		o.Limits.Submits = -1
	})
	for i := range 50 {
		f.submit(fmt.Sprintf("short-%d", i), "short "+strings.Repeat("word ", 200))
	}
	queries = 0
	for run, title := range f.titles() {
		if !strings.HasPrefix(title, "short word") {
			t.Errorf("run %s has the title %q", run, title)
		}
	}
	if queries != 1 {
		t.Errorf("a page of 50 runs took %d queries for entries", queries)
	}
	for i := range 20 {
		f.submit(fmt.Sprintf("long-%d", i), "long "+strings.Repeat("x", 900_000))
	}
	short := f.submit("short", "short").Run
	bytes = 0
	titled := 0
	got := f.titles()
	for _, title := range got {
		if strings.HasPrefix(title, "long") {
			titled++
		}
	}
	if got[short] != "short" || titled < 4 || titled > 9 || bytes > 9<<20 {
		t.Errorf("the list read %d bytes for the titles of %d long messages", bytes, titled)
	}
}
