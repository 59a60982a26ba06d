package ledger

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"mailroom"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

func TestAPanicFailsItsOperationOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(memory.New(), Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var errs [3]error
		var panics int
		var all sync.WaitGroup
		submit := func(i int, threadID string) {
			in := thread.Submit{Thread: threadID, Messages: []thread.NewMessage{{Parts: mailroom.Text("hello")}}}
			_, errs[i] = l.Submit(ctx, in)
		}
		// All three are queued before the committer starts, so they form one batch.
		all.Go(func() { submit(0, "a") })
		synctest.Wait()
		all.Go(func() {
			o := op{name: "broken", rank: rankPlain, threads: []string{"a"}}
			_, errs[1] = run(ctx, l, o, func(tx *transaction) (int, error) {
				panics++
				in := thread.Submit{Thread: "a", Run: "lost", Agent: "echo",
					Messages: []thread.NewMessage{{Parts: mailroom.Text("half done")}}}
				if _, err := tx.submit(in, false); err != nil {
					t.Error(err)
				}
				panic("a secret")
			})
		})
		synctest.Wait()
		all.Go(func() { submit(2, "a") })
		synctest.Wait()
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		all.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if errs[0] != nil || errs[2] != nil {
			t.Errorf("the other operations: %v and %v, want no errors", errs[0], errs[2])
		}
		if panics != 1 {
			t.Errorf("the panicking operation ran %d times, want once", panics)
		}
		var refused *mailroom.Error
		if !errors.As(errs[1], &refused) || refused.Code != mailroom.CodeInternal ||
			strings.Contains(refused.Message, "secret") || !strings.Contains(refused.Error(), "panic_test.go") {
			t.Errorf("error %v, want an internal one with a stack as its cause", errs[1])
		}
		err := l.View(context.Background(), func(r store.Reader) error {
			log, err := r.Entries(store.EntryQuery{Thread: "a"})
			if len(log) != 4 {
				t.Errorf("%d entries, want the 4 of the two submits", len(log))
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}
