package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/entry"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

func TestAnObserverIsCalledForEveryOperationCommitAndEnd(t *testing.T) {
	var mu sync.Mutex
	var ops, ended []string
	var commits, batched int
	d := open(t, nil, ledger.Options{Observe: ledger.Observe{
		Operation: func(name string, err error, took time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			ops = append(ops, fmt.Sprintf("%s %s %v", name, mailroom.CodeOf(err), took > 0))
		},
		Commit: func(n int, took time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			commits, batched = commits+1, batched+n
		},
		RunFinished: func(r *mailroom.Run) {
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, fmt.Sprintf("%s %s", r.Thread, r.Status))
		},
	}})
	d.register("w")
	d.submit(text("a", "one"))
	dropped := d.submit(text("a", "two"))
	if _, err := d.Submit(d.ctx, mode(mailroom.ModeReject, "a", "three")); mailroom.CodeOf(err) != mailroom.CodeBusy {
		t.Fatal(err)
	}
	must(d.Cancel(d.ctx, dropped.Run, "ann"))(t)
	d.settle(complete(d.claimOne("w").Claim, "done"))
	ctx, cancel := context.WithCancel(d.ctx)
	cancel()
	if _, err := d.Claim(ctx, thread.ClaimRequest{Worker: "w", Round: 9, Slots: 1, Agents: map[string]int{"echo": 1},
		Wait: true}); err == nil {
		t.Fatal("a withdrawn claim was made")
	}
	if err := d.close(); err != nil { // waits for observations after the results
		t.Fatal(err)
	}
	want := []string{
		"register  true", "submit  true", "submit  true", "submit busy true", "cancel  true", "claim  true", "settle  true",
		"claim internal false", // a standing claim
	}
	if diff := cmp.Diff(want, ops); diff != "" {
		t.Error(diff)
	}
	slices.Sort(ended)
	if diff := cmp.Diff([]string{"a cancelled", "a completed"}, ended); diff != "" {
		t.Error(diff)
	}
	if commits == 0 || batched != 6 { // the refused submit changed nothing
		t.Errorf("%d commits of %d operations, want 6 operations", commits, batched)
	}
}

// slowStore delays some calls, in virtual time.
type slowStore struct {
	store.Store
	threads, write time.Duration
}

type slowTx struct {
	store.Tx
	s *slowStore
}

func (s *slowStore) Update(ctx context.Context, f func(store.Tx) error) error {
	return s.Store.Update(ctx, func(tx store.Tx) error { return f(slowTx{tx, s}) })
}

func (t slowTx) Threads(q store.ThreadQuery) ([]*mailroom.Thread, error) {
	<-time.After(t.s.threads) // of the bubble
	return t.Tx.Threads(q)
}

func (t slowTx) Write(c *store.Changes) error {
	<-time.After(t.s.write)
	return t.Tx.Write(c)
}

func TestSlowOperationsAreLogged(t *testing.T) {
	for _, c := range []struct {
		store slowStore
		want  string
	}{
		{slowStore{threads: 50 * time.Millisecond, write: 500 * time.Millisecond}, ""},
		{slowStore{threads: 51 * time.Millisecond}, `level=WARN msg="slow operation in the committer" operation=patch took=51ms`},
		{slowStore{write: 501 * time.Millisecond}, `level=WARN msg="slow commit" took=501ms`},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			handler := slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}})
			c.store.Store = memory.New()
			d := open(t, &c.store, ledger.Options{Log: slog.New(handler)})
			made := c.store
			c.store.threads, c.store.write = 0, 0
			d.submit(text("t", "one"))
			d.submit(text("replies", "two"))
			c.store.threads, c.store.write = made.threads, made.write
			to := "replies" // the operation searches for threads that deliver to t
			if _, err := d.PatchThread(d.ctx, "t", thread.Patch{DeliverTo: &to}); err != nil {
				t.Fatal(err)
			}
			if err := d.close(); err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimSpace(log.String()); got != c.want {
				t.Errorf("logged %q, want %q", got, c.want)
			}
		})
	}
}

// lockedLog is a log for several goroutines.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder // owned by mu
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func TestARunThatFailedForGoodIsLoggedOnceWithItsErrorAndNoQuotedText(t *testing.T) {
	var log lockedLog
	d := open(t, nil,
		ledger.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	d.register("w")
	for _, class := range []mailroom.Class{mailroom.ClassTransient, mailroom.ClassPermanent} {
		d.submit(text(string(class), "one"))
		d.settle(thread.Settle{
			Claim: d.claimOne("w").Claim, Outcome: thread.OutcomeFail,
			Failure: &mailroom.Failure{Class: class,
				Err: errors.New("HTTP 401: key sk-Ab3dE5fG7hI9kL1m of 'ann smith' in /home/ann/key\x1b[2J was refused")},
		})
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	got := ""
	for line := range strings.Lines(log.text.String()) {
		if !strings.Contains(line, `msg="slow operation`) { // a busy machine
			got += line
		}
	}
	got = strings.TrimSpace(got)
	group := thread.ErrorGroup("HTTP 401: key sk-Ab3dE5fG7hI9kL1m of 'ann smith' in /home/ann/key\x1b[2J was refused")
	end := ` thread=permanent agent=echo attempt=1 failures=0 class=permanent group=` + group +
		` error="HTTP 401: key sk-# of '*' in <path> [2J was refused"`
	if strings.Count(got, "\n") != 0 || !strings.Contains(got, `level=WARN msg="run failed for good" run=`) ||
		!strings.HasSuffix(got, end) {
		t.Errorf("log: %s", got)
	}
}

// The ledger counts attempts of all workers, also remote ones: it makes their claims and settles.
func TestAnObserverIsCalledForTheAttemptsOfEveryWorker(t *testing.T) {
	var mu sync.Mutex
	var starts, ends, used []string
	d := open(t, nil, ledger.Options{Observe: ledger.Observe{
		AttemptStarted: func(a thread.AttemptStart) {
			mu.Lock()
			defer mu.Unlock()
			starts = append(starts, fmt.Sprintf("%s %d late=%v", a.Agent, a.Attempt, a.At.Before(a.Due) ||
				a.Due.Before(a.Created)))
		},
		AttemptEnded: func(a thread.AttemptEnd) {
			mu.Lock()
			defer mu.Unlock()
			ends = append(ends, fmt.Sprintf("%s %s %s", a.Agent, a.Outcome, a.Class))
		},
		AttemptUsed: func(u thread.AttemptUse) {
			mu.Lock()
			defer mu.Unlock()
			used = append(used, fmt.Sprintf("%s %d %g %d", u.Agent, u.Usage.InputTokens, u.Usage.CostUSD, u.UnknownEffects))
		},
	}})
	d.register("w")
	d.submit(text("t", "one"))
	first := d.claimOne("w").Claim
	for i, step := range []thread.StepCommit{
		{Step: mailroom.Step{Usage: mailroom.Usage{InputTokens: 7, CostUSD: 0.25}}},
		{Step: mailroom.Step{Progress: 0.5}}, // uses nothing
		{Effects: []mailroom.AgentEntry{{Kind: entry.KindEffectUnknown, Body: []byte(`{"name":"mail"}`)}}},
	} {
		step.Claim, step.Number = first, i+1
		for range 2 { // a repeat uses nothing more
			if _, err := d.Append(d.ctx, step); err != nil {
				t.Fatal(err)
			}
		}
	}
	down := thread.Settle{Claim: first, Number: 4, Outcome: thread.OutcomeFail,
		Failure: &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("down"), RetryAfter: time.Hour}}
	d.settle(down)
	d.settle(down) // a repeat is no further attempt
	d.submit(text("u", "two"))
	d.settle(thread.Settle{Claim: d.claimOne("w").Claim, Number: 1, Outcome: thread.OutcomeRelease})
	d.settle(complete(d.claimOne("w").Claim, "done"))
	d.submit(text("v", "three"))
	d.claimOne("w")
	if err := d.Deregister(d.ctx, thread.Leave{Worker: "w"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Sweep(d.ctx, ""); err != nil { // takes its claim away
		t.Fatal(err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"echo 1 late=false", "echo 1 late=false", "echo 2 late=false", "echo 1 late=false"},
		starts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"echo fail unavailable", "echo release ", "echo complete ", "echo lease_lost "},
		ends); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"echo 7 0.25 0", "echo 0 0 1"}, used); diff != "" {
		t.Error(diff)
	}
}
