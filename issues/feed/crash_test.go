package feed_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"mailroom"
	"mailroom/channel"
	"mailroom/entry"
	"mailroom/issues/feed"
	"mailroom/issues/tracker"
	"mailroom/thread"
)

func TestFiftyConcurrentIssuesEachRunOnceDespiteEdits(t *testing.T) {
	w := newFixture(t).withSQLite()
	const n = 50
	w.options.MaxClaims = n
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("x-%02d", i))
	}
	w.create(ids...)
	w.start()
	var bd sync.WaitGroup
	for some := range slices.Chunk(ids, n/5) {
		bd.Go(func() { // another writer, concurrent with the server
			for _, id := range some {
				w.set(id, func(it *tracker.Issue) { it.Notes = "of " + id })
			}
		})
	}
	bd.Wait()
	for _, id := range ids {
		w.waitStatus(id, tracker.StatusClosed)
		w.waitDelivered(id)
		it := w.issue(id)
		if it.Notes != "of "+id || it.CloseReason != "done" {
			t.Errorf("issue %s is %+v", id, it)
		}
		// An edit may precede the claim. An edit after it does not change the key.
		if got := comments(it); !slices.Equal(got, []string{"codex: done"}) || w.agent.count(id) != 1 ||
			len(w.runs("issue:"+id)) != 1 {
			t.Errorf("%s: %d attempts, comments %q", id, w.agent.count(id), got)
		}
	}
	if s := w.runner.State(); s.Attempts > 0 || s.LastError != "" {
		t.Errorf("channel %+v", s)
	}
}

func TestTwoServersOnOneTrackerClaimEachIssueOnce(t *testing.T) {
	first := newFixture(t)
	second := newFixtureOn(t, first.folder)
	var ids []string
	for i := range 20 {
		ids = append(ids, fmt.Sprintf("x-%02d", i))
	}
	first.create(ids...)
	for _, w := range []*fixture{first, second} {
		w.options.MaxClaims = 3
		w.start()
	}
	for _, id := range ids {
		first.waitStatus(id, tracker.StatusClosed)
		if a, b := first.agent.count(id), second.agent.count(id); a+b != 1 {
			t.Errorf("%s: %d and %d attempts on the two servers", id, a, b)
		}
	}
}

func TestAServerIgnoresTheClaimsOfAnother(t *testing.T) {
	first := newFixture(t)
	first.create("x-a")
	work, open := gatedWork("done")
	defer open()
	first.agent.setWork(work)
	first.start()
	first.waitRun("x-a", mailroom.StatusRunning)
	first.stop()
	second := newFixtureOn(t, first.folder)
	second.start()
	second.create("x-b")
	second.waitStatus("x-b", tracker.StatusClosed)
	if second.agent.count("x-a") > 0 || second.issue("x-a").Status != tracker.StatusInProgress {
		t.Errorf("%d attempts on the other server, want none", second.agent.count("x-a"))
	}
	open()
	first.start()
	first.waitStatus("x-a", tracker.StatusClosed)
}

// TestARestartAtAnyStepResumes stops the server at each step of an issue's life and starts another
// one on the same store.
func TestARestartAtAnyStepResumes(t *testing.T) {
	for _, c := range []struct {
		when     string
		break_   func(w *fixture) // before the first server starts
		until    func(w *fixture)
		mend     func(w *fixture) // between the two servers
		attempts int
	}{
		{
			when: "between the claim and the submit", attempts: 1,
			break_: func(w *fixture) {
				w.ledgerFault = func(string) error { return mailroom.Errorf(mailroom.CodeUnavailable, "the test stops the ledger") }
			},
			until: func(w *fixture) { w.waitStatus("x-a", tracker.StatusInProgress) },
			mend: func(w *fixture) {
				w.ledgerFault = nil
				w.set("x-a", func(it *tracker.Issue) { it.Notes = "edited while stopped" })
			},
		},
		{
			when: "during the run", attempts: 2,
			break_: func(w *fixture) {
				w.agent.setWork(func(ctx context.Context, _ mailroom.Session) error { <-ctx.Done(); return context.Cause(ctx) })
			},
			until: func(w *fixture) { w.waitFor("the agent running", func() bool { return w.agent.count("x-a") == 1 }) },
			mend:  func(w *fixture) { w.agent.setWork(nil) },
		},
		{
			when: "between the run and the comment about it", attempts: 1,
			break_: func(w *fixture) {
				w.agent.setWork(func(ctx context.Context, s mailroom.Session) error {
					w.rename(w.folder.File(), w.folder.File()+".away")
					return s.Stream(ctx, "done")
				})
			},
			until: func(w *fixture) {
				w.waitRun("x-a", mailroom.StatusCompleted)
				// The channel may find the file missing first, and then starts no delivery.
				w.waitFor("the delivery fails or cannot start", func() bool {
					return w.countEntries("out:issue:x-a", entry.KindRescheduled) > 0 ||
						w.runner.State().Condition != channel.ConditionConnected
				})
			},
			mend: func(w *fixture) { w.rename(w.folder.File()+".away", w.folder.File()) },
		},
	} {
		t.Run(c.when, func(t *testing.T) {
			w := newFixture(t).withSQLite()
			w.create("x-a")
			c.break_(w)
			w.start()
			c.until(w)
			w.stop()
			c.mend(w)
			w.start()
			w.waitStatus("x-a", tracker.StatusClosed)
			w.waitDelivered("x-a")
			it := w.issue("x-a")
			if got := comments(it); !slices.Equal(got, []string{"codex: done"}) || it.CloseReason != "done" {
				t.Errorf("close reason %q, comments %q", it.CloseReason, got)
			}
			if runs := w.runs("issue:x-a"); len(runs) != 1 || w.agent.count("x-a") != c.attempts {
				t.Errorf("%d runs and %d attempts, want 1 and %d", len(runs), w.agent.count("x-a"), c.attempts)
			}
		})
	}
}

func (w *fixture) rename(from, to string) {
	w.t.Helper()
	if err := os.Rename(from, to); err != nil {
		w.t.Error(err)
	}
}

// TestAnOlderVersionOfTheFileStartsNoRunTwice simulates switching to another git branch.
func TestAnOlderVersionOfTheFileStartsNoRunTwice(t *testing.T) {
	w := newFixture(t)
	w.create("x-a")
	before, err := os.ReadFile(w.folder.File())
	if err != nil {
		t.Fatal(err)
	}
	w.start()
	w.waitStatus("x-a", tracker.StatusClosed)
	w.waitDelivered("x-a")
	if err := os.WriteFile(w.folder.File(), before, 0o644); err != nil {
		t.Fatal(err)
	}
	it := w.waitStatus("x-a", tracker.StatusClosed)
	if got := comments(it); !slices.Equal(got, []string{"codex: done"}) || w.agent.count("x-a") != 1 {
		t.Errorf("%d attempts, comments %q", w.agent.count("x-a"), got)
	}
}

func TestARepeatedDeliveryAddsNothing(t *testing.T) {
	w := newFixture(t)
	w.create("x-a")
	w.start()
	w.waitStatus("x-a", tracker.StatusClosed)
	w.waitDelivered("x-a")
	before := w.issue("x-a")
	run := w.runs("issue:x-a")[0]
	w.deliver(channel.Delivery{Run: run, Text: "done\n"})
	w.deliver(channel.Delivery{Run: run, Ended: true})
	if after := w.issue("x-a"); !after.UpdatedAt.Equal(before.UpdatedAt) || len(after.Comments) != 1 {
		t.Errorf("the issue was changed; comments %q", comments(after))
	}
}

func TestTheLastCommentAndTheCloseAreOneWrite(t *testing.T) {
	w := newFixture(t)
	w.create("x-a")
	away := w.folder.File() + ".away"
	w.agent.setWork(func(ctx context.Context, s mailroom.Session) error {
		w.rename(w.folder.File(), away)
		return s.Stream(ctx, "done")
	})
	w.start()
	run := w.waitRun("x-a", mailroom.StatusCompleted)
	w.stop()
	w.rename(away, w.folder.File())
	w.deliver(channel.Delivery{Run: run, Text: "done"}) // no other writer runs
	it := w.issue("x-a")
	if it.Status != tracker.StatusClosed || len(it.Comments) != 1 || !it.Comments[0].CreatedAt.Equal(it.ClosedAt) {
		t.Errorf("issue is %s, closed at %v, comments %+v", it.Status, it.ClosedAt, it.Comments)
	}
}

// deliver makes a delivery without the server.
func (w *fixture) deliver(d channel.Delivery) {
	w.t.Helper()
	watch, err := feed.New(w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	var link *channel.Host
	ctx, cancel := context.WithCancel(w.t.Context())
	r := channel.New(channel.Options{Name: "issue", Kind: feed.Kind, Ledger: w.ledger,
		Connect: func(_ context.Context, l *channel.Host) (channel.Adapter, error) {
			link = l
			cancel()
			return nil, errors.New("that is all")
		}})
	r.Run(ctx) // passes its host to Connect
	if err := watch.Deliver(w.t.Context(), link, d, nil); err != nil {
		w.t.Fatal(err)
	}
}

func TestAnUnreadableTrackerIsRetried(t *testing.T) {
	w := newFixture(t)
	away := w.folder.Path() + ".away"
	w.rename(w.folder.Path(), away)
	w.start()
	w.waitFor("the reported error", func() bool {
		s := w.runner.State()
		return s.Condition == channel.ConditionQueued && strings.Contains(s.Reason, "no tracker in "+w.folder.Path()) &&
			strings.Contains(s.Reason, "bd init")
	})
	w.rename(away, w.folder.Path())
	w.create("x-a")
	w.waitStatus("x-a", tracker.StatusClosed)
	w.waitFor("it is connected", func() bool { return w.runner.State().Condition == channel.ConditionConnected })
}

func TestAWaitForALockedTrackerTimesOut(t *testing.T) {
	w := newFixture(t)
	w.create("x-a")
	lock := flock.New(filepath.Join(w.folder.Path(), "issues.lock"))
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	w.options.LockTimeout = 10 * time.Millisecond
	w.start()
	w.waitFor("the reported error", func() bool {
		return strings.Contains(w.runner.State().Reason, w.folder.File()+" is locked by another process (waited 10ms): ")
	})
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	w.waitStatus("x-a", tracker.StatusClosed)
}

func TestAnUnwritableIssueDoesNotBlockOthers(t *testing.T) {
	w := newFixture(t)
	w.create("x-good")
	file, err := os.OpenFile(w.folder.File(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString(
		`{"id":"x-odd","title":"Odd","status":"open","priority":0,"issue_type":"task","metadata":"theirs"}` + "\n" +
			`{"id":"x-wrong","title":"Wrong","status":"open","priority":-3,"issue_type":"task"}` + "\nno issue\n")
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.waitStatus("x-good", tracker.StatusClosed)
	w.create("x-more")
	w.waitStatus("x-more", tracker.StatusClosed)
	if s := w.runner.State(); s.LastError == "" || s.Attempts > 0 {
		t.Errorf("no reported error: %+v", s)
	}
	for _, id := range []string{"x-odd", "x-wrong"} {
		if it := w.issue(id); it.Status != tracker.StatusOpen || w.agent.count(id) > 0 {
			t.Errorf("issue %s is %s", id, it.Status)
		}
		if n := strings.Count(w.logs.String(), "issue "+id+" skipped"); n != 1 {
			t.Errorf("%d reports of the skipped issue %s", n, id)
		}
	}
}

func TestAThreadOfAnotherOwnerBlocksItsIssue(t *testing.T) {
	w := newFixture(t)
	w.options.Interval = time.Hour // no scan: the test needs only the ledger
	w.start()
	if _, err := w.ledger.Submit(t.Context(), thread.Submit{
		Thread: "issue:x-a", Agent: "codex", Owner: "bob", Messages: []thread.NewMessage{{Parts: mailroom.Text("mine")}},
		Sender: "bob",
	}); err != nil {
		t.Fatal(err)
	}
	w.waitRun("x-a", mailroom.StatusCompleted)
	w.stop()
	w.create("x-a")
	w.options.Interval = 5 * time.Millisecond
	w.start()
	it := w.waitStatus("x-a", tracker.StatusBlocked)
	if got := comments(it); len(got) != 1 || !strings.HasPrefix(got[0], "mailroom: Cannot submit this issue to codex: ") {
		t.Errorf("comments %q", got)
	}
}
