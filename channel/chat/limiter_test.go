package chat

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
)

// spacedCaps has a second between messages and two between edits.
func spacedCaps() Capabilities {
	return Capabilities{RoomInterval: time.Second, EditInterval: 2 * time.Second}
}

func TestRoomLimitsAdmitCallsByPriority(t *testing.T) {
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	second := time.Second
	for name, c := range map[string]struct {
		happened func(g *roomLimits)
		closed   time.Duration // limit of all rooms
		want     [5]string     // per priority
	}{
		"a new room": {func(*roomLimits) {}, 0, [5]string{"now", "now", "now", "now", "now"}},
		"after a message": {func(g *roomLimits) {
			g.record(PriorityMessage, spacedCaps(), 0, now)
		}, 0, [5]string{"1s", "1s", "not", "not", "now"}},
		"a second after a message": {func(g *roomLimits) {
			g.record(PriorityMessage, spacedCaps(), 0, now.Add(-second))
		}, 0, [5]string{"now", "now", "not", "now", "now"}},
		"two seconds after a message": {func(g *roomLimits) {
			g.record(PriorityMessage, spacedCaps(), 0, now.Add(-2*second))
		}, 0, [5]string{"now", "now", "now", "now", "now"}},
		"typing": {func(g *roomLimits) {
			g.record(PriorityTyping, spacedCaps(), 0, now)
		}, 0, [5]string{"now", "now", "now", "now", "now"}},
		"an edit met a flood limit": {func(g *roomLimits) {
			g.record(PriorityEdit, spacedCaps(), time.Minute, now.Add(-second))
		}, 0, [5]string{"59s", "59s", "not", "not", "not"}},
		"typing met a flood limit": {func(g *roomLimits) {
			g.record(PriorityTyping, spacedCaps(), time.Minute, now)
		}, 0, [5]string{"1m0s", "1m0s", "not", "not", "not"}},
		"a limit of all rooms": {func(*roomLimits) {}, time.Minute, [5]string{"1m0s", "1m0s", "not",
			"not", "not"}},
		"a delivery is in progress": {func(g *roomLimits) {
			g.active++
		}, 0, [5]string{"now", "now", "not", "not", "now"}},
		"a delivery was postponed": {func(g *roomLimits) {
			g.postpone(10*second, now.Add(-12*second))
		}, 0, [5]string{"now", "now", "not", "not", "now"}},
		"a postponed delivery never came": {func(g *roomLimits) {
			g.postpone(10*second, now.Add(-17*second))
		}, 0, [5]string{"now", "now", "now", "now", "now"}},
		"a postponed delivery came": {func(g *roomLimits) {
			g.postpone(10*second, now.Add(-12*second))
			g.record(PriorityMessage, spacedCaps(), 0, now.Add(-2*second))
		}, 0, [5]string{"now", "now", "now", "now", "now"}},
		"a shorter limit does not end a longer one": {func(g *roomLimits) {
			g.record(PriorityMessage, spacedCaps(), time.Minute, now)
			g.record(PriorityMessage, spacedCaps(), second, now)
		}, 0, [5]string{"1m0s", "1m0s", "not", "not", "not"}},
	} {
		t.Run(name, func(t *testing.T) {
			var g roomLimits
			c.happened(&g)
			var got [5]string
			for r := range got {
				wait, ok := g.wait(Priority(r), now.Add(c.closed), now)
				switch {
				case !ok:
					got[r] = "not"
				case wait == 0:
					got[r] = "now"
				default:
					got[r] = wait.String()
				}
			}
			if got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// callLog records calls with the time since it began.
type callLog struct {
	began time.Time
	mu    sync.Mutex
	list  []string
}

func (x *callLog) note(what string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.list = append(x.list, fmt.Sprintf("%s at %s", what, time.Since(x.began).Round(time.Millisecond)))
}

func (x *callLog) expect(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, x.list); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func rateLimited(after time.Duration, more ...error) error {
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: after,
		Err: errors.Join(append(more, errors.New("too many requests"))...)}
}

func TestADeliveryWaitsInlineOnlyBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, at, x := NewLimiter(), Room{Chat: "1"}, &callLog{began: time.Now()}
		say := func(what string, err error) error {
			return g.Do(t.Context(), at, spacedCaps(), PriorityMessage, func(context.Context) error { x.note(what); return err })
		}
		for _, what := range []string{"one", "two"} {
			if err := say(what, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := say("three", rateLimited(time.Minute)); err == nil {
			t.Fatal("the platform's error is lost")
		}
		f := mailroom.AsFailure(say("four", nil))
		if f.Class != mailroom.ClassUnavailable || f.RetryAfter != time.Minute {
			t.Errorf("got %+v, want an outage of a minute", f)
		}
		x.expect(t, "one at 0s", "two at 1s", "three at 2s")
	})
}

func TestNoCallIsMadeDuringARateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, x := NewLimiter(), &callLog{began: time.Now()}
		try := func(id string, r Priority, err error) error {
			return g.Do(t.Context(), Room{Chat: id}, spacedCaps(), r, func(context.Context) error { x.note(id); return err })
		}
		if err := try("1", PriorityEdit, rateLimited(time.Minute)); err == nil {
			t.Fatal("the platform's error is lost")
		}
		for range 100 {
			for _, r := range []Priority{PriorityMessage, PriorityQuestion, PriorityEdit, PriorityTyping, PriorityAck} {
				if err := try("1", r, nil); err == nil && time.Since(x.began) < time.Minute {
					t.Fatalf("call with rank %d during the limit", r)
				}
			}
			<-time.After(590 * time.Millisecond)
		}
		x.expect(t, "1 at 0s")
	})
}

func TestADeliveryGoesBeforeEditsAndAfterTheCallInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, at, x := NewLimiter(), Room{Chat: "1"}, &callLog{began: time.Now()}
		caps := spacedCaps()
		caps.RoomInterval = 500 * time.Millisecond
		take := func(r Priority, what string, takes time.Duration) error {
			return g.Do(t.Context(), at, caps, r, func(context.Context) error {
				<-time.After(takes)
				x.note(what)
				return nil
			})
		}
		var both sync.WaitGroup
		both.Go(func() { _ = take(PriorityEdit, "edit", 3*time.Second) }) // only recorded
		synctest.Wait()
		both.Go(func() {
			if err := take(PriorityMessage, "final", time.Second); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		for range 9 {
			if err := take(PriorityEdit, "late edit", 0); err != ErrNotNow {
				t.Errorf("got %v, want ErrNotNow for an edit", err)
			}
			if err := take(PriorityTyping, "typing", 0); err != ErrNotNow {
				t.Errorf("got %v, want ErrNotNow for typing", err)
			}
			<-time.After(500 * time.Millisecond)
		}
		both.Wait()
		x.expect(t, "edit at 3s", "final at 4.5s")
	})
}

func TestIdleRoomsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewLimiter()
		for i := range 10_000 {
			if err := g.Do(t.Context(), Room{Chat: fmt.Sprint(i)}, spacedCaps(), PriorityMessage, func(context.Context) error {
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			<-time.After(100 * time.Millisecond)
		}
		if n := len(g.rooms); n > 200 {
			t.Errorf("%d rooms in memory", n)
		}
	})
}

// TestTheLimiterKeepsItsRules plays random deliveries, edits and typing indicators against a
// platform that sometimes sets limits, and checks each call.
func TestTheLimiterKeepsItsRules(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			var (
				mu                   sync.Mutex
				open, edits, refused time.Time
				inside               int
				sent                 int
			)
			g, caps := NewLimiter(), spacedCaps()
			call := func(r Priority, rng *rand.Rand) error {
				mu.Lock()
				now := time.Now()
				if now.Before(refused) {
					t.Errorf("seed %d: call with rank %d %s before the end of the platform's limit", seed, r, refused.Sub(now))
				}
				if r != PriorityTyping {
					if inside++; inside > 1 {
						t.Errorf("seed %d: two concurrent calls", seed)
					}
					if now.Before(open) || r == PriorityEdit && now.Before(edits) {
						t.Errorf("seed %d: call with rank %d before its interval has passed", seed, r)
					}
				}
				takes, bad := time.Duration(rng.IntN(1500))*time.Millisecond, rng.IntN(20) == 0
				mu.Unlock()
				<-time.After(takes)
				mu.Lock()
				defer mu.Unlock()
				now = time.Now()
				if r != PriorityTyping {
					inside--
					open, edits = now.Add(caps.RoomInterval), now.Add(caps.EditInterval)
				}
				if r == PriorityMessage {
					sent++
				}
				if bad && r != PriorityTyping {
					refused = now.Add(30 * time.Second)
					return rateLimited(30 * time.Second)
				}
				return nil
			}
			var all sync.WaitGroup
			for who := range uint64(4) {
				all.Go(func() {
					rng := rand.New(rand.NewPCG(seed, who))
					for range 40 {
						r := Priority(rng.IntN(4))
						err := g.Do(t.Context(), Room{Chat: "1"}, caps, r, func(context.Context) error { return call(r, rng) })
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
}

// TestSlowRoomsLeavePlacesForOthers has more rooms hang than maxSlowDeliveries.
func TestSlowRoomsLeavePlacesForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, room := NewLimiter(), func(n int) Room { return Room{Chat: fmt.Sprint(n)} }
		hang := func(context.Context) error {
			<-time.After(slowThreshold)
			return errors.New("no answer")
		}
		const rooms = 3 * maxSlowDeliveries
		all := func() (put, failed int) {
			var mu sync.Mutex
			var each sync.WaitGroup
			for n := range rooms {
				each.Go(func() {
					err := g.Do(t.Context(), room(n), Capabilities{}, PriorityMessage, hang)
					mu.Lock()
					defer mu.Unlock()
					if errors.Is(err, ErrPostponed) && mailroom.AsFailure(err).RetryAfter == slowRetry {
						put++
					} else if err != nil {
						failed++
					}
				})
			}
			each.Wait()
			return put, failed
		}
		if put, failed := all(); put != 0 || failed != rooms {
			t.Errorf("first calls: %d postponed, %d failed", put, failed)
		}
		if put, failed := all(); put != rooms-maxSlowDeliveries || failed != maxSlowDeliveries {
			t.Errorf("slow rooms: %d postponed, %d failed, want %d failed", put, failed, maxSlowDeliveries)
		}
		works := func(context.Context) error { return nil }
		for range 2 { // a success ends the slow state
			if err := g.Do(t.Context(), room(0), Capabilities{}, PriorityMessage, works); err != nil || g.slowActive != 0 {
				t.Errorf("a room that responds again: %v, with %d slow rooms", err, g.slowActive)
			}
		}
		if err := g.Do(t.Context(), room(rooms), Capabilities{}, PriorityMessage, works); err != nil {
			t.Errorf("another room: %v", err)
		}
	})
}

func TestABotKeepsItsIntervalAcrossRooms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, began := NewLimiter(), time.Now()
		var each sync.WaitGroup
		for n := range 31 {
			each.Go(func() {
				err := g.Do(t.Context(), Room{Chat: fmt.Sprint(n)}, Capabilities{BotInterval: time.Second / 30}, PriorityMessage,
					func(context.Context) error {
						return nil
					})
				if err != nil {
					t.Error(err)
				}
			})
		}
		each.Wait()
		if took := time.Since(began).Round(time.Millisecond); took != time.Second {
			t.Errorf("31 messages to 31 chats took %s", took)
		}
	})
}

// TestAGroupHasALimitPerMinute also checks that other chats do not wait for the group.
func TestAGroupHasALimitPerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, caps := NewLimiter(), Capabilities{RoomInterval: time.Second, GroupPerMinute: 20}
		sent := map[string][]time.Time{}
		say := func(at Room, r Priority) error {
			return g.Do(t.Context(), at, caps, r, func(context.Context) error {
				sent[at.Chat] = append(sent[at.Chat], time.Now())
				return nil
			})
		}
		team, other, ann := Room{Chat: "-1", Group: true}, Room{Chat: "-2", Group: true}, Room{Chat: "1"}
		var put []time.Duration
		for range 50 {
			for say(team, PriorityMessage) != nil {
				f := mailroom.AsFailure(say(team, PriorityQuestion))
				put = append(put, f.RetryAfter)
				for _, at := range []Room{other, ann} {
					if err := say(at, PriorityMessage); err != nil {
						t.Fatalf("chat %s was delayed by another one: %v", at.Chat, err)
					}
				}
				<-time.After(f.RetryAfter)
			}
			at := team
			at.Topic = "7" // the same group
			team = at
		}
		for range 30 {
			if err := say(ann, PriorityMessage); err != nil {
				t.Fatalf("a private chat was limited: %v", err)
			}
		}
		all := sent["-1"]
		for i := 20; i < len(all); i++ {
			if all[i].Sub(all[i-20]) < time.Minute {
				t.Errorf("message %d was sent %s after message %d, want at least a minute", i, all[i].Sub(all[i-20]), i-20)
			}
		}
		if len(all) != 50 || len(put) != 2 || all[19].Sub(all[0]) != 19*time.Second {
			t.Errorf("%d messages sent, postponed for %s; the first 20 took %s", len(all), put, all[19].Sub(all[0]))
		}
	})
}
