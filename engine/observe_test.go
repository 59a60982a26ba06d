package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/engine"
)

func TestAnObserverIsCalledForStartsAndRenewals(t *testing.T) {
	everywhere(t, func(h *fixture) {
		var mu sync.Mutex
		var starts []engine.Start
		renewals := 0
		o := serving(func(ctx context.Context, s mailroom.Session) error {
			if s.Run().Attempt == 1 {
				return errors.New("not yet")
			}
			return nil
		})
		o.Observe = engine.Observe{
			Started: func(s engine.Start) {
				mu.Lock()
				defer mu.Unlock()
				starts = append(starts, s)
			},
			Renewal: func(err error) {
				mu.Lock()
				defer mu.Unlock()
				renewals++
				if err != nil {
					t.Errorf("renewal: %v", err)
				}
			},
		}
		out := h.send("t", "x")
		h.wait(time.Minute) // no engine serves it yet
		h.start(o)
		h.wait(16 * time.Second)
		h.status(out.Run, mailroom.StatusCompleted)

		mu.Lock()
		defer mu.Unlock()
		if renewals != 4 { // the registration, and one every 5 s
			t.Errorf("%d renewals in 16 s, want 4", renewals)
		}
		if len(starts) != 2 {
			t.Fatalf("%d starts, want 2", len(starts))
		}
		first, second := starts[0], starts[1]
		if waited := first.Entered.Sub(first.Due); waited < time.Minute || first.Claimed.Before(first.Due) ||
			first.Entered.Before(first.Claimed) {
			t.Errorf("first start: due %v, claimed %v, entered %v", first.Due, first.Claimed, first.Entered)
		}
		if second.Run.Attempt != 2 || !second.Due.After(first.Entered) || second.Entered.Sub(second.Due) > time.Second {
			t.Errorf("second start: attempt %d, due %v, entered %v", second.Run.Attempt, second.Due, second.Entered)
		}
	})
}
