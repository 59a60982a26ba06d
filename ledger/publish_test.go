package ledger

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

// TestAPanicWhilePublishingEndsTheLedgerInOrder makes Publish panic. Every operation returns: those of
// the same batch, a queued one and a later one. Run returns an error.
func TestAPanicWhilePublishingEndsTheLedgerInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var published atomic.Int32
		var l *Ledger
		errs := make(chan error, 4)
		submit := func(threadID string) {
			_, err := l.Submit(context.Background(), thread.Submit{Thread: threadID,
				Messages: []thread.NewMessage{{Parts: mailroom.Text("hello")}}})
			errs <- err
		}
		l = New(memory.New(), Options{Publish: func(string, []mailroom.Entry) {
			if published.Add(1) == 1 {
				go submit("queued") // queued while the committer is busy
				<-time.After(time.Second)
				panic("bomb")
			}
		}})
		go submit("a") // both are queued before the committer starts, so they form one batch
		go submit("b")
		synctest.Wait()
		ended := make(chan error, 1)
		go func() { ended <- l.Run(context.Background()) }()
		<-time.After(time.Minute) // of the bubble: no real time passes
		select {
		case err := <-ended:
			if !errors.Is(err, store.ErrClosed) || !strings.Contains(err.Error(), "panic: bomb") {
				t.Errorf("Run returned %v, want the panic, and that the store is closed", err)
			}
		default:
			t.Error("Run has not returned")
		}
		submit("later")
		synctest.Wait()
		if len(errs) != cap(errs) {
			t.Fatalf("%d of %d operations have returned", len(errs), cap(errs))
		}
		for range cap(errs) {
			if err := <-errs; mailroom.CodeOf(err) != mailroom.CodeUnavailable {
				t.Errorf("an operation got %v, want unavailable", err)
			}
		}
	})
}
