package chat

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
)

func TestALimitOfAllRoomsPostponesEveryRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, x := NewLimiter(), &callLog{began: time.Now()}
		try := func(id string, r Priority, err error) error {
			return g.Do(t.Context(), Room{Chat: id}, spacedCaps(), r, func(context.Context) error { x.note(id); return err })
		}
		if err := try("1", PriorityEdit, rateLimited(time.Minute, ErrEverywhere)); err == nil {
			t.Fatal("the platform's error is lost")
		}
		for _, chat := range []string{"1", "2"} { // 2 was never used
			for _, r := range []Priority{PriorityMessage, PriorityQuestion} {
				if f := mailroom.AsFailure(try(chat, r, nil)); f.Class != mailroom.ClassUnavailable || f.RetryAfter != time.Minute {
					t.Errorf("chat %s: got %v, want an outage of a minute", chat, f)
				}
			}
			for _, r := range []Priority{PriorityEdit, PriorityTyping, PriorityAck} {
				if err := try(chat, r, nil); err == nil {
					t.Errorf("chat %s: call with rank %d during the limit", chat, r)
				}
			}
		}
		<-time.After(time.Minute)
		for _, chat := range []string{"1", "2"} {
			if err := try(chat, PriorityMessage, nil); err != nil {
				t.Errorf("chat %s after the limit: %v", chat, err)
			}
		}
		x.expect(t, "1 at 0s", "1 at 1m0s", "2 at 1m0s")
	})
}

// TestNoCallIsMadeDuringALimitOfAllRooms plays random calls to several rooms under limits of
// one room and of all, and checks each call against them.
func TestNoCallIsMadeDuringALimitOfAllRooms(t *testing.T) {
	met := 0 // limits of all rooms
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			type limit struct{ since, until time.Time }
			var (
				mu    sync.Mutex
				rooms = map[string]limit{} // "" means all rooms
				sent  int
			)
			g, caps := NewLimiter(), spacedCaps()
			call := func(room string, r Priority, rng *rand.Rand) error {
				mu.Lock()
				for _, key := range []string{room, ""} { // a call that starts with the response does not know the limit
					if l := rooms[key]; time.Now().After(l.since) && time.Now().Before(l.until) {
						t.Errorf("seed %d: call with rank %d to room %s %s too early", seed, r, room, time.Until(l.until))
					}
				}
				takes, bad := time.Duration(rng.IntN(1500))*time.Millisecond, rng.IntN(40)
				mu.Unlock()
				<-time.After(takes)
				mu.Lock()
				defer mu.Unlock()
				after := time.Duration(5+rng.IntN(30)) * time.Second
				now := limit{time.Now(), time.Now().Add(after)}
				longer := func(key string) { // a shorter limit does not end a longer one
					if rooms[key].until.Before(now.until) {
						rooms[key] = now
					}
				}
				switch {
				case bad == 0:
					met++
					longer("")
					return rateLimited(after, ErrEverywhere)
				case bad == 1:
					longer(room)
					return rateLimited(after)
				}
				if r == PriorityMessage {
					sent++
				}
				return nil
			}
			var all sync.WaitGroup
			for who := range uint64(8) {
				all.Go(func() {
					rng, room := rand.New(rand.NewPCG(seed, who)), fmt.Sprint(who%3)
					for range 40 {
						r := Priority(rng.IntN(int(PriorityAck) + 1))
						err := g.Do(t.Context(), Room{Chat: room}, caps, r, func(context.Context) error { return call(room, r, rng) })
						<-time.After(max(mailroom.AsFailure(err).RetryAfter, time.Duration(rng.IntN(3000))*time.Millisecond))
					}
				})
			}
			all.Wait()
			if sent == 0 {
				t.Errorf("seed %d: no calls", seed)
			}
		})
	}
	if met == 0 {
		t.Error("no call met a limit")
	}
}
