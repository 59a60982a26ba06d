package github

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTwentyPullRequestsWaitForTheirTurn opens them at the same moment, with the pause that GitHub asks for.
func TestTwentyPullRequestsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPulls(PullOptions{Token: func() (string, error) { return "x", nil }, WritePause: time.Second})
		begin := time.Now()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				b, err := (&Repository{pulls: p, name: "ann/roof"}).open()
				if err == nil {
					err = b.limits.turn(t.Context(), "open the pull request")
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(begin); took != 19*time.Second {
			t.Errorf("took %v, want a second between two of them", took)
		}
	})
}
