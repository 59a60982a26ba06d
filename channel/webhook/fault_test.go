package webhook_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/platformtest"
	"mailroom/store"
	"mailroom/thread"
)

// faultyLedger fails some submits.
type faultyLedger struct {
	channel.Ledger
	submit func(ctx context.Context, in thread.Submit) (store.Submitted, error)
}

func (f faultyLedger) Submit(ctx context.Context, in thread.Submit) (store.Submitted, error) {
	return f.submit(ctx, in)
}

// TestARequestDoesNotOutliveItsChannel has one request in process and one waiting.
func TestARequestDoesNotOutliveItsChannel(t *testing.T) {
	t.Parallel()
	o := newFixture(t)
	began := time.Now()
	taking := make(chan struct{}, 1)
	o.wrapLedger = func(l channel.Ledger) channel.Ledger {
		return faultyLedger{l, func(ctx context.Context, _ thread.Submit) (store.Submitted, error) {
			taking <- struct{}{}
			<-ctx.Done()
			return store.Submitted{}, context.Cause(ctx)
		}}
	}
	o.start()
	var posts sync.WaitGroup
	post := func(id string) {
		posts.Go(func() {
			a, err := o.program.Post("ops", id, platformtest.WebhookMessage("r", "ann", "one"), nil)
			if err != nil || a.Code != 503 || a.Header.Get("Retry-After") == "" || time.Since(began) > 20*time.Second {
				t.Errorf("%d %v %s, %v", a.Code, a.Header, a.Body, err)
			}
		})
	}
	post("1")
	<-taking
	first := o.runner.State().LastSuccess
	post("2")
	o.WaitFor(t, "the second one", func() bool { return o.runner.State().LastSuccess.After(first) })
	o.stopChannel()
	posts.Wait()
}

func TestConcurrentRequestsAreAllAccepted(t *testing.T) {
	t.Parallel()
	o := newFixture(t).start()
	var posts sync.WaitGroup
	var want []string
	for n := range 40 {
		id := fmt.Sprintf("msg-%02d", n)
		want = append(want, id)
		for range 2 { // each is sent twice
			posts.Go(func() {
				a, err := o.program.Post("ops", id, platformtest.WebhookMessage(fmt.Sprint("r", n%7), "ann", id), nil)
				if err != nil || a.Code != 202 {
					t.Errorf("%s: %d %s, %v", id, a.Code, a.Body, err)
				}
			})
		}
	}
	posts.Wait()
	o.WaitFor(t, "all", func() bool { return len(o.Texts()) >= len(want) })
	o.waitIdle()
	got := o.Texts()
	if slices.Sort(got); !slices.Equal(got, want) || len(o.Posts()) != len(want) {
		t.Errorf("got %q", got)
	}
}
