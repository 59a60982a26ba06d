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

// rank orders what is to go to one room: the first goes before the others.
type rank int

const (
	saying  rank = iota // what was said, or an answer to a command
	asking              // a question, or what came of it
	editing             // of a preview
	typing
	telling // who pressed a button, what came of it: no message, and of no use later
)

// moment is the longest that a delivery waits for its place to open. Who must wait
// longer comes again.
const moment = time.Second

const (
	// slowAfter is how long a call takes that fails before its room counts as slow, and
	// slowFor how long that lasts unless a call succeeds.
	slowAfter = 5 * time.Second
	slowFor   = 10 * time.Minute
	// maxSlow bounds the deliveries to slow rooms at once: the others keep the rest of
	// [channel.MaxDeliveries]. One more comes again after slowPause.
	maxSlow   = 16
	slowPause = 5 * time.Second
)

// longest is the most that a platform is believed when it asks for patience.
const longest = 24 * time.Hour

// errLater says of what is no delivery that it is not to be now.
var errLater = errors.New("other things go first")

// errPutOff says of a delivery that it is to come again when its room is open.
var errPutOff = errors.New("the platform takes nothing for this chat")

// gate is the rule of one room. It is a plain value machine.
type gate struct {
	open     time.Time // no message goes before
	patience time.Time // nothing at all goes before: the platform has asked for it
	edits    time.Time // no edit goes before
	// wanted: until then an edit leaves room for a delivery that was put off.
	wanted time.Time
	// sent are when the messages of the last minute were sent, at most Capabilities.GroupPerMinute.
	sent   []time.Time
	inside int       // deliveries that have come, and not gone
	slow   time.Time // until then the room is slow, see slowAfter
}

// wait is how long r must wait at now; what is no delivery must not, and is told
// whether it may be.
func (g *gate) wait(r rank, closed, now time.Time) (time.Duration, bool) {
	open := g.open
	if r == telling {
		open = g.patience
	}
	if closed.After(open) {
		open = closed
	}
	wait := max(open.Sub(now), 0)
	switch {
	case r <= asking:
		return wait, true
	case r == telling:
		return wait, wait == 0
	}
	if r == editing {
		wait = max(wait, g.edits.Sub(now))
	}
	return wait, wait == 0 && g.inside == 0 && !now.Before(g.wanted)
}

// putOff notes a delivery that comes again after a while.
func (g *gate) putOff(wait time.Duration, now time.Time) {
	const late = 5 * time.Second // that it may come beyond a fifth of the wait
	g.wanted = now.Add(wait + wait/5 + late)
}

// passed notes that r was at the platform, which asks for patience if after is not 0.
func (g *gate) passed(r rank, t Capabilities, after time.Duration, now time.Time) {
	switch {
	case r <= asking:
		g.wanted = time.Time{}
		g.count(t.GroupPerMinute, now)
		fallthrough
	case r == editing:
		g.close(now.Add(t.RoomInterval))
		g.edits = now.Add(t.EditInterval)
	}
	if until := now.Add(after); after > 0 {
		g.close(until)
		if until.After(g.patience) {
			g.patience = until
		}
	}
}

// count notes a message of a room that takes most messages in a minute; 0 for any number.
// After the last of them nothing goes until the first one is a minute old. Edits are not
// counted: no platform says that they are.
func (g *gate) count(most int, now time.Time) {
	if most == 0 {
		return
	}
	g.sent = append(g.sent, now)
	if over := len(g.sent) - most; over >= 0 {
		g.close(g.sent[over].Add(time.Minute))
		g.sent = slices.Clone(g.sent[over:])
	}
}

func (g *gate) close(until time.Time) {
	if until.After(g.open) {
		g.open = until
	}
}

// idle reports whether the gate says nothing that a new one would not.
func (g *gate) idle(now time.Time) bool {
	if n := len(g.sent); n > 0 && now.Sub(g.sent[n-1]) < time.Minute {
		return false
	}
	return g.inside == 0 && !now.Before(g.slow) && !now.Before(g.open) && !now.Before(g.edits) && !now.Before(g.wanted)
}

// gates are those of a channel's rooms. They outlive its connections: what a
// platform has asked for holds for the next one too.
type gates struct {
	// Owned by mu.
	mu     sync.Mutex
	rooms  map[string]*turnstile
	closed time.Time // all of them, until then
	next   time.Time // no message goes before, to any room
	slow   int       // deliveries at slow rooms
	sweep  int       // how many rooms there are when the idle ones are forgotten
}

// turnstile is the gate of one room, through which one goes at a time.
type turnstile struct {
	gate           // owned by the mu of gates
	turn chan bool // holds a value while somebody is inside
	used int       // owned by the mu of gates: how many are at it
}

func newGates() *gates { return &gates{rooms: map[string]*turnstile{}, sweep: 64} }

// pass has f talk to the platform about a room when r may. A delivery waits its
// turn, but no longer than a moment for the room to open: else it fails as an
// Outage, to come again. All else fails with errLater rather than wait.
// What f fails with is returned as it is, and a RetryAfter in it closes the gate.
func (g *gates) pass(ctx context.Context, at Room, t Capabilities, r rank, f func(context.Context) error) error {
	if !at.Group {
		t.GroupPerMinute = 0
	}
	p := g.find(at)
	defer g.leave(p)
	if r >= typing { // it delays nobody
		if _, ok := g.ask(p, r); !ok {
			return errLater
		}
		return g.call(ctx, p, t, r, f)
	}
	if r <= asking {
		g.come(p, 1)
		defer g.come(p, -1)
		slow, ok := g.enter(p)
		if !ok {
			return g.putOff(p, slowPause)
		}
		defer g.exit(slow)
	} else if _, ok := g.ask(p, r); !ok {
		return errLater
	}
	if r == editing {
		select {
		case p.turn <- true:
		default:
			return errLater
		}
	} else {
		select {
		case p.turn <- true:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer func() { <-p.turn }()
	for {
		wait, ok := g.ask(p, r)
		switch {
		case !ok:
			return errLater
		case wait == 0:
			if wait = g.reserve(t, r); wait == 0 {
				return g.call(ctx, p, t, r, f)
			}
			if r == editing {
				return errLater
			}
		}
		switch {
		case wait > moment:
			return g.putOff(p, wait)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// putOff has a delivery come again.
func (g *gates) putOff(p *turnstile, wait time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.putOff(wait, time.Now())
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: wait, Err: fmt.Errorf("%w for %s", errPutOff, wait.Round(time.Second))}
}

// enter lets a delivery to a room, unless the room is slow and as many others are at slow
// rooms as may be. It reports whether the room is slow.
func (g *gates) enter(p *turnstile) (slow, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	slow = time.Now().Before(p.slow)
	if slow && g.slow >= maxSlow {
		return slow, false
	}
	if slow {
		g.slow++
	}
	return slow, true
}

func (g *gates) exit(slow bool) {
	if slow {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.slow--
	}
}

// reserve takes the next place among the messages to all rooms, or returns how long none
// is free.
func (g *gates) reserve(t Capabilities, r rank) time.Duration {
	if t.BotInterval == 0 || r > editing {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if wait := g.next.Sub(now); wait > 0 {
		return wait
	}
	g.next = now.Add(t.BotInterval)
	return 0
}

// call calls f and notes what the platform asks for.
func (g *gates) call(ctx context.Context, p *turnstile, t Capabilities, r rank, f func(context.Context) error) error {
	began := time.Now()
	err := f(ctx)
	var after time.Duration
	if err != nil {
		after = min(mailroom.AsFailure(err).RetryAfter, longest)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	p.passed(r, t, after, now)
	switch {
	case err == nil:
		p.slow = time.Time{}
	case now.Sub(began) >= slowAfter:
		p.slow = now.Add(slowFor)
	}
	if until := now.Add(after); errors.Is(err, ErrEverywhere) && until.After(g.closed) {
		g.closed = until
	}
	return err
}

func (g *gates) ask(p *turnstile, r rank) (time.Duration, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return p.wait(r, g.closed, time.Now())
}

func (g *gates) come(p *turnstile, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.inside += n
}

// free reports whether r would pass now.
func (g *gates) free(at Room, r rank) bool {
	p := g.find(at)
	defer g.leave(p)
	wait, ok := g.ask(p, r)
	return ok && wait == 0 && len(p.turn) == 0
}

func (g *gates) find(at Room) *turnstile {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := at.Chat // platforms count what is sent to a chat, whatever its topics
	p := g.rooms[key]
	if p == nil {
		p = &turnstile{turn: make(chan bool, 1)}
		g.rooms[key] = p
	}
	p.used++
	return p
}

func (g *gates) leave(p *turnstile) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.used--
	if len(g.rooms) < g.sweep {
		return
	}
	now := time.Now()
	for key, p := range g.rooms {
		if p.used == 0 && p.idle(now) {
			delete(g.rooms, key)
		}
	}
	g.sweep = max(64, 2*len(g.rooms))
}
