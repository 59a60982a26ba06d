package chat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"mailroom"
)

// Priority orders the calls to one room, the most urgent first.
type Priority int

const (
	PriorityMessage  Priority = iota // a reply, or the answer to a command
	PriorityQuestion                 // a question, or its redrawn form
	PriorityEdit                     // an edit of a preview
	PriorityTyping
	PriorityAck // the answer to a button press: not a message, and useless later
)

// maxInlineWait bounds how long a delivery waits in place. A longer wait becomes a retry.
const maxInlineWait = time.Second

const (
	// A failed call that took slowThreshold marks its room as slow for slowDuration, or until a
	// call succeeds.
	slowThreshold = 5 * time.Second
	slowDuration  = 10 * time.Minute
	// maxSlowDeliveries bounds the deliveries to slow rooms at once, so that other rooms keep the
	// remaining channel.MaxDeliveries. A delivery over the bound is retried after slowRetry.
	maxSlowDeliveries = 16
	slowRetry         = 5 * time.Second
)

// maxRetryAfter bounds the delay that a platform can ask for.
const maxRetryAfter = 24 * time.Hour

// ErrNotNow is returned for edits, typing indicators and acknowledgements that must not run now.
var ErrNotNow = errors.New("not sent: other calls to the platform have priority")

// ErrPostponed is returned for a delivery that is retried once its room is open.
var ErrPostponed = errors.New("the platform accepts no message for this chat")

// roomLimits holds the limits of one room. It is a state machine without a clock.
type roomLimits struct {
	nextMessage time.Time // earliest next message
	retryAfter  time.Time // earliest next call, set by the platform
	nextEdit    time.Time // earliest next edit
	// reservedUntil blocks edits in favour of a postponed delivery.
	reservedUntil time.Time
	// sent are the times of the last minute's messages, at most Capabilities.GroupPerMinute.
	sent      []time.Time
	active    int       // deliveries in progress
	slowUntil time.Time // the room counts as slow until then
}

// wait returns how long a call of priority r must wait. ok reports whether it may be made:
// deliveries always may, others only without a wait.
func (g *roomLimits) wait(r Priority, closed, now time.Time) (time.Duration, bool) {
	open := g.nextMessage
	if r == PriorityAck {
		open = g.retryAfter
	}
	if closed.After(open) {
		open = closed
	}
	wait := max(open.Sub(now), 0)
	switch {
	case r <= PriorityQuestion:
		return wait, true
	case r == PriorityAck:
		return wait, wait == 0
	}
	if r == PriorityEdit {
		wait = max(wait, g.nextEdit.Sub(now))
	}
	return wait, wait == 0 && g.active == 0 && !now.Before(g.reservedUntil)
}

// postpone reserves the room for a delivery that is retried after wait.
func (g *roomLimits) postpone(wait time.Duration, now time.Time) {
	const late = 5 * time.Second // bound on its delay beyond a fifth of the wait
	g.reservedUntil = now.Add(wait + wait/5 + late)
}

// record records a call of priority r. after is the delay that the platform asked for, 0 for
// none.
func (g *roomLimits) record(r Priority, t Capabilities, after time.Duration, now time.Time) {
	switch {
	case r <= PriorityQuestion:
		g.reservedUntil = time.Time{}
		g.countMessage(t.GroupPerMinute, now)
		fallthrough
	case r == PriorityEdit:
		g.blockUntil(now.Add(t.RoomInterval))
		g.nextEdit = now.Add(t.EditInterval)
	}
	if until := now.Add(after); after > 0 {
		g.blockUntil(until)
		if until.After(g.retryAfter) {
			g.retryAfter = until
		}
	}
}

// countMessage counts a message against a limit per minute; 0 means no limit. At the limit, it
// blocks the room until the first message is a minute old. Edits do not count, because no
// platform documents that they do.
func (g *roomLimits) countMessage(most int, now time.Time) {
	if most == 0 {
		return
	}
	g.sent = append(g.sent, now)
	if over := len(g.sent) - most; over >= 0 {
		g.blockUntil(g.sent[over].Add(time.Minute))
		g.sent = slices.Clone(g.sent[over:])
	}
}

func (g *roomLimits) blockUntil(until time.Time) {
	if until.After(g.nextMessage) {
		g.nextMessage = until
	}
}

// idle reports whether the limits of a room are those of a room that was never used, so that they can be dropped.
func (g *roomLimits) idle(now time.Time) bool {
	if n := len(g.sent); n > 0 && now.Sub(g.sent[n-1]) < time.Minute {
		return false
	}
	return g.active == 0 && !now.Before(g.slowUntil) && !now.Before(g.nextMessage) && !now.Before(g.nextEdit) &&
		!now.Before(g.reservedUntil)
}

// Limiter limits the calls of a chat channel to its platform: per room, over all rooms, and as the platform asks. It
// outlives connections, because a platform's rate limit does too.
type Limiter struct {
	// Owned by mu.
	mu           sync.Mutex
	rooms        map[string]*roomLimiter
	blockedUntil time.Time // blocks all rooms
	nextMessage  time.Time // earliest next message to any room
	slowActive   int       // deliveries to slow rooms
	sweepAt      int       // number of rooms at which idle ones are dropped
}

// roomLimiter admits one call to a room at a time.
type roomLimiter struct {
	roomLimits           // owned by limiter.mu
	slot       chan bool // holds a value during a call
	refs       int       // callers; owned by limiter.mu
}

func NewLimiter() *Limiter { return &Limiter{rooms: map[string]*roomLimiter{}, sweepAt: 64} }

// Do calls f, which calls the platform for a room, as soon as the limits allow it. A delivery
// waits its turn, and up to maxInlineWait for the room's limits; otherwise it fails as
// ClassUnavailable with a RetryAfter. Other calls return ErrNotNow instead of waiting. Do returns
// f's error unchanged, and a RetryAfter in it blocks the room.
func (g *Limiter) Do(ctx context.Context, at Room, t Capabilities, r Priority, f func(context.Context) error) error {
	if !at.Group {
		t.GroupPerMinute = 0
	}
	p := g.acquireRoom(at)
	defer g.releaseRoom(p)
	if r <= PriorityQuestion {
		slow, ok := g.begin(p)
		defer g.end(p, slow)
		if !ok {
			return g.postpone(p, slowRetry)
		}
	} else if _, ok := g.check(p, r); !ok {
		return ErrNotNow
	}
	if r >= PriorityTyping { // typing and answers to presses do not delay deliveries
		return g.call(ctx, p, t, r, f)
	}
	if r == PriorityEdit {
		select {
		case p.slot <- true:
		default:
			return ErrNotNow
		}
	} else {
		select {
		case p.slot <- true:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer func() { <-p.slot }()
	for {
		wait, ok := g.check(p, r)
		switch {
		case !ok:
			return ErrNotNow
		case wait == 0:
			if wait = g.reserve(t, r); wait == 0 {
				return g.call(ctx, p, t, r, f)
			}
			if r == PriorityEdit {
				return ErrNotNow
			}
		}
		if wait > maxInlineWait {
			return g.postpone(p, wait)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// postpone returns the error of a delivery that is retried after wait.
func (g *Limiter) postpone(p *roomLimiter, wait time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.postpone(wait, time.Now())
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: wait,
		Err: fmt.Errorf("%w for %s", ErrPostponed, wait.Round(time.Second))}
}

// begin counts a delivery, and whether its room is slow. ok is false if too many deliveries to slow
// rooms are in progress.
func (g *Limiter) begin(p *roomLimiter) (slow, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.active++
	switch {
	case !time.Now().Before(p.slowUntil):
		return false, true
	case g.slowActive >= maxSlowDeliveries:
		return false, false
	}
	g.slowActive++
	return true, true
}

func (g *Limiter) end(p *roomLimiter, slow bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.active--
	if slow {
		g.slowActive--
	}
}

// reserve takes the next slot among the messages to all rooms, or returns the time until one is
// free.
func (g *Limiter) reserve(t Capabilities, r Priority) time.Duration {
	if t.BotInterval == 0 || r > PriorityEdit {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if wait := g.nextMessage.Sub(now); wait > 0 {
		return wait
	}
	g.nextMessage = now.Add(t.BotInterval)
	return 0
}

// call calls f and records the outcome.
func (g *Limiter) call(
	ctx context.Context, p *roomLimiter, t Capabilities, r Priority, f func(context.Context) error,
) error {
	began := time.Now()
	err := f(ctx)
	var after time.Duration
	if err != nil {
		after = min(mailroom.AsFailure(err).RetryAfter, maxRetryAfter)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	p.record(r, t, after, now)
	switch {
	case err == nil:
		p.slowUntil = time.Time{}
	case now.Sub(began) >= slowThreshold:
		p.slowUntil = now.Add(slowDuration)
	}
	if until := now.Add(after); errors.Is(err, ErrEverywhere) && until.After(g.blockedUntil) {
		g.blockedUntil = until
	}
	return err
}

func (g *Limiter) check(p *roomLimiter, r Priority) (time.Duration, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return p.wait(r, g.blockedUntil, time.Now())
}

// IsFree reports whether a call of priority r would run now.
func (g *Limiter) IsFree(at Room, r Priority) bool {
	p := g.acquireRoom(at)
	defer g.releaseRoom(p)
	wait, ok := g.check(p, r)
	return ok && wait == 0 && len(p.slot) == 0
}

func (g *Limiter) acquireRoom(at Room) *roomLimiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := at.Chat // platforms count messages per chat, across topics
	p := g.rooms[key]
	if p == nil {
		p = &roomLimiter{slot: make(chan bool, 1)}
		g.rooms[key] = p
	}
	p.refs++
	return p
}

func (g *Limiter) releaseRoom(p *roomLimiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.refs--
	if len(g.rooms) < g.sweepAt {
		return
	}
	now := time.Now()
	for key, p := range g.rooms {
		if p.refs == 0 && p.idle(now) {
			delete(g.rooms, key)
		}
	}
	g.sweepAt = max(64, 2*len(g.rooms))
}
