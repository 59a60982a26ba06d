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

// priority orders what is to go to one room: the first goes before the others.
type priority int

const (
	priorityMessage  priority = iota // what was said, or an answer to a command
	priorityQuestion                 // a question, or what came of it
	priorityEdit                     // of a preview
	priorityTyping
	priorityAck // who pressed a button, what came of it: no message, and of no use later
)

// maxInlineWait is the longest that a delivery waits for its place to open. Who must wait
// longer comes again.
const maxInlineWait = time.Second

const (
	// slowThreshold is how long a call takes that fails before its room counts as slow, and
	// slowFor how long that lasts unless a call succeeds.
	slowThreshold = 5 * time.Second
	slowDuration  = 10 * time.Minute
	// maxSlowDeliveries bounds the deliveries to slow rooms at once: the others keep the rest of
	// [channel.MaxDeliveries]. One more comes again after slowPause.
	maxSlowDeliveries = 16
	slowRetry         = 5 * time.Second
)

// maxRetryAfter is the most that a platform is believed when it asks for patience.
const maxRetryAfter = 24 * time.Hour

// errNotNow says of what is no delivery that it is not to be now.
var errNotNow = errors.New("other things go first")

// errPostponed says of a delivery that it is to come again when its room is open.
var errPostponed = errors.New("the platform takes nothing for this chat")

// roomLimits is the rule of one room. It is a plain value machine.
type roomLimits struct {
	nextMessage time.Time // no message goes before
	retryAfter  time.Time // nothing at all goes before: the platform has asked for it
	nextEdit    time.Time // no edit goes before
	// reservedUntil: until then an edit leaves room for a delivery that was put off.
	reservedUntil time.Time
	// sent are when the messages of the last minute were sent, at most Capabilities.GroupPerMinute.
	sent      []time.Time
	active    int       // deliveries that have come, and not gone
	slowUntil time.Time // until then the room is slow, see slowAfter
}

// wait is how long r must wait at now; what is no delivery must not, and is told
// whether it may be.
func (g *roomLimits) wait(r priority, closed, now time.Time) (time.Duration, bool) {
	open := g.nextMessage
	if r == priorityAck {
		open = g.retryAfter
	}
	if closed.After(open) {
		open = closed
	}
	wait := max(open.Sub(now), 0)
	switch {
	case r <= priorityQuestion:
		return wait, true
	case r == priorityAck:
		return wait, wait == 0
	}
	if r == priorityEdit {
		wait = max(wait, g.nextEdit.Sub(now))
	}
	return wait, wait == 0 && g.active == 0 && !now.Before(g.reservedUntil)
}

// postpone notes a delivery that comes again after a while.
func (g *roomLimits) postpone(wait time.Duration, now time.Time) {
	const late = 5 * time.Second // that it may come beyond a fifth of the wait
	g.reservedUntil = now.Add(wait + wait/5 + late)
}

// record notes that r was at the platform, which asks for patience if after is not 0.
func (g *roomLimits) record(r priority, t Capabilities, after time.Duration, now time.Time) {
	switch {
	case r <= priorityQuestion:
		g.reservedUntil = time.Time{}
		g.countMessage(t.GroupPerMinute, now)
		fallthrough
	case r == priorityEdit:
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

// countMessage notes a message of a room that takes most messages in a minute; 0 for any number.
// After the last of them nothing goes until the first one is a minute old. Edits are not
// counted: no platform says that they are.
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

// idle reports whether the gate says nothing that a new one would not.
func (g *roomLimits) idle(now time.Time) bool {
	if n := len(g.sent); n > 0 && now.Sub(g.sent[n-1]) < time.Minute {
		return false
	}
	return g.active == 0 && !now.Before(g.slowUntil) && !now.Before(g.nextMessage) && !now.Before(g.nextEdit) && !now.Before(g.reservedUntil)
}

// limiter are those of a channel's rooms. They outlive its connections: what a
// platform has asked for holds for the next one too.
type limiter struct {
	// Owned by mu.
	mu           sync.Mutex
	rooms        map[string]*roomLimiter
	blockedUntil time.Time // all of them, until then
	nextMessage  time.Time // no message goes before, to any room
	slowActive   int       // deliveries at slow rooms
	sweepAt      int       // how many rooms there are when the idle ones are forgotten
}

// roomLimiter is the gate of one room, through which one goes at a time.
type roomLimiter struct {
	roomLimits           // owned by the mu of gates
	slot       chan bool // holds a value while somebody is inside
	refs       int       // owned by the mu of gates: how many are at it
}

func newLimiter() *limiter { return &limiter{rooms: map[string]*roomLimiter{}, sweepAt: 64} }

// do has f talk to the platform about a room when r may. A delivery waits its
// turn, but no longer than a moment for the room to open: else it fails as an
// Outage, to come again. All else fails with errLater rather than wait.
// What f fails with is returned as it is, and a RetryAfter in it closes the gate.
func (g *limiter) do(ctx context.Context, at Room, t Capabilities, r priority, f func(context.Context) error) error {
	if !at.Group {
		t.GroupPerMinute = 0
	}
	p := g.acquireRoom(at)
	defer g.releaseRoom(p)
	if r >= priorityTyping { // it delays nobody
		if _, ok := g.check(p, r); !ok {
			return errNotNow
		}
		return g.call(ctx, p, t, r, f)
	}
	if r <= priorityQuestion {
		g.addActive(p, 1)
		defer g.addActive(p, -1)
		slow, ok := g.acquireSlow(p)
		if !ok {
			return g.postpone(p, slowRetry)
		}
		defer g.releaseSlow(slow)
	} else if _, ok := g.check(p, r); !ok {
		return errNotNow
	}
	if r == priorityEdit {
		select {
		case p.slot <- true:
		default:
			return errNotNow
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
			return errNotNow
		case wait == 0:
			if wait = g.reserve(t, r); wait == 0 {
				return g.call(ctx, p, t, r, f)
			}
			if r == priorityEdit {
				return errNotNow
			}
		}
		switch {
		case wait > maxInlineWait:
			return g.postpone(p, wait)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// postpone has a delivery come again.
func (g *limiter) postpone(p *roomLimiter, wait time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.postpone(wait, time.Now())
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: wait, Err: fmt.Errorf("%w for %s", errPostponed, wait.Round(time.Second))}
}

// acquireSlow lets a delivery to a room, unless the room is slow and as many others are at slow
// rooms as may be. It reports whether the room is slow.
func (g *limiter) acquireSlow(p *roomLimiter) (slow, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	slow = time.Now().Before(p.slowUntil)
	if slow && g.slowActive >= maxSlowDeliveries {
		return slow, false
	}
	if slow {
		g.slowActive++
	}
	return slow, true
}

func (g *limiter) releaseSlow(slow bool) {
	if slow {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.slowActive--
	}
}

// reserve takes the next place among the messages to all rooms, or returns how long none
// is free.
func (g *limiter) reserve(t Capabilities, r priority) time.Duration {
	if t.BotInterval == 0 || r > priorityEdit {
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

// call calls f and notes what the platform asks for.
func (g *limiter) call(ctx context.Context, p *roomLimiter, t Capabilities, r priority, f func(context.Context) error) error {
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

func (g *limiter) check(p *roomLimiter, r priority) (time.Duration, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return p.wait(r, g.blockedUntil, time.Now())
}

func (g *limiter) addActive(p *roomLimiter, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.active += n
}

// isFree reports whether r would pass now.
func (g *limiter) isFree(at Room, r priority) bool {
	p := g.acquireRoom(at)
	defer g.releaseRoom(p)
	wait, ok := g.check(p, r)
	return ok && wait == 0 && len(p.slot) == 0
}

func (g *limiter) acquireRoom(at Room) *roomLimiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := at.Chat // platforms count what is sent to a chat, whatever its topics
	p := g.rooms[key]
	if p == nil {
		p = &roomLimiter{slot: make(chan bool, 1)}
		g.rooms[key] = p
	}
	p.refs++
	return p
}

func (g *limiter) releaseRoom(p *roomLimiter) {
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
