package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mailroom/channel/chat"
)

const (
	mostPlaces = 100 // channels, and threads, of which the position knows how far they were read
	onePage    = 200 // messages
	mostPages  = 10  // of one room, at once
)

// places are how far the rooms were read that were heard of last: the time of the last
// message of a channel, by its id, and of a thread, by the id of what began it.
type places struct {
	read map[string]string
	// left are rooms whose history is to be read. What comes meanwhile does not move
	// them: it is not the next after what was read.
	left map[string]bool
}

// readPlaces reads a position; nil if it is none. All its rooms are left.
func readPlaces(position string) *places {
	p := &places{read: map[string]string{}, left: map[string]bool{}}
	if position == "" {
		return p
	}
	if err := json.Unmarshal([]byte(position), &p.read); err != nil {
		return nil
	}
	maps.DeleteFunc(p.read, func(at, last string) bool { return at == "" || !timeForm.MatchString(last) })
	for at := range p.read {
		p.left[at] = true
	}
	return p
}

// String is the position.
func (p *places) String() string {
	raw, err := json.Marshal(p.read)
	if err != nil {
		panic(err) // it is text
	}
	return string(raw)
}

// saw notes a message that came. A thread is one to know of once the bot has to do
// with it.
func (p *places) saw(m message, e chat.Event, bot string) {
	if at := place(m); at == m.Channel {
		p.reach(at, m.TS, false)
	}
	if e.Room.Topic == "" {
		return
	}
	at := id(m.Channel, e.Room.Topic)
	if _, known := p.read[at]; known || e.Addressed || m.Parent == bot {
		p.reach(at, m.TS, false)
	}
}

// reach moves a room on; one that is left only if that is what its history has.
func (p *places) reach(at, ts string, history bool) {
	last, known := p.read[at]
	if p.left[at] && !history || known && !before(last, ts) {
		return
	}
	p.read[at] = ts
	if known {
		return
	}
	var alike []string // a channel makes no room for threads
	for other := range p.read {
		if strings.Contains(other, ":") == strings.Contains(at, ":") {
			alike = append(alike, other)
		}
	}
	if len(alike) > mostPlaces {
		p.forget(slices.MinFunc(alike, p.byTime))
	}
}

// place is the room in whose history a message is.
func place(m message) string {
	if m.Thread == "" || m.Thread == m.TS {
		return m.Channel
	}
	return id(m.Channel, m.Thread)
}

// byTime orders rooms by what was read last.
func (p *places) byTime(a, b string) int {
	switch x, y := p.read[a], p.read[b]; {
	case before(x, y):
		return -1
	case before(y, x):
		return 1
	}
	return 0
}

func (p *places) forget(at string) {
	delete(p.read, at)
	delete(p.left, at)
}

// past is what was said before it was received, as the histories of rooms have it. One
// history is read at a time, beside the loop, and its messages are taken by the loop.
type past struct {
	told  chan heard
	at    string    // room whose history is being read, or taken; "" for none
	read  bool      // it was read, so its messages move the position of the room
	more  bool      // there is more of it
	queue []message // of the room, to be taken
	// passed are messages that came as envelopes to rooms whose history goes first, and
	// were acknowledged. Their rooms' saved positions are before them.
	passed map[string][]message
	held   int // of them

	quiet time.Time            // no history is read before
	later map[string]time.Time // nor that of a room
}

// mostPassed messages wait for histories, in all rooms together.
const mostPassed = 1000

// heard is a part of a history.
type heard struct {
	said []message
	more bool
	err  error
}

func (p *past) begin() {
	p.told = make(chan heard)
	p.passed, p.later = map[string][]message{}, map[string]time.Time{}
}

// pass reports whether a message that came as an envelope waits for the history of its
// room: the history has it too, and goes before it. What is changed or deleted does not:
// no history tells that.
func (in *receiving) pass(m message) bool {
	p, at := &in.past, place(m)
	last, known := in.places.read[at]
	switch {
	case m.Subtype == "message_changed" || m.Subtype == "message_deleted":
		return false
	case p.at != at && !in.places.left[at]:
		return false
	case !known || !before(last, m.TS) || !in.readable(m.Channel) || p.held >= mostPassed:
		return false
	case p.at != at && time.Now().Before(p.due(at)):
		return false // Slack wants to be asked for it later
	}
	p.passed[at] = append(p.passed[at], m)
	p.held++
	return true
}

// readable reports whether the bot has the scopes for the history of a channel.
func (c *connection) readable(channel string) bool {
	for _, scope := range c.bot.Lacks {
		if kind, history := strings.CutSuffix(scope, ":history"); history && (kind == "im") == private(channel) {
			return false
		}
	}
	return true
}

// due is when the history of a room can be asked for.
func (p *past) due(at string) time.Time {
	if later := p.later[at]; later.After(p.quiet) {
		return later
	}
	return p.quiet
}

// next is the room whose history is to be read next, and when: first those in which
// something waits for it, then the one that was heard of last.
func (in *receiving) next() (at string, due time.Time, ok bool) {
	for room := range in.places.left {
		d := in.past.due(room)
		if !ok || in.sooner(room, d, at, due) {
			at, due, ok = room, d, true
		}
	}
	return at, due, ok
}

// sooner reports whether the history of room a, which is due at one time, is read before
// that of b.
func (in *receiving) sooner(a string, due time.Time, b string, other time.Time) bool {
	now := time.Now()
	switch x, y := due.After(now), other.After(now); {
	case x != y:
		return y
	case x && !due.Equal(other):
		return due.Before(other)
	}
	if x, y := len(in.past.passed[a]) > 0, len(in.past.passed[b]) > 0; x != y {
		return x
	}
	return in.places.byTime(a, b) > 0
}

// askPast has the next history read beside the loop, unless one is. It returns when
// one can be, if there is something to wait for.
func (in *receiving) askPast(ctx context.Context) (idle <-chan time.Time) {
	if in.past.at != "" {
		return nil
	}
	for room := range in.past.passed {
		if !in.places.left[room] { // it was left out meanwhile: there are others to remember
			in.past.at, in.past.read, in.past.more = room, false, false
			in.leavePast()
			return time.After(0)
		}
	}
	at, due, ok := in.next()
	if !ok {
		return nil
	}
	if wait := time.Until(due); wait > 0 {
		return time.After(wait)
	}
	in.past.at = at
	last := in.places.read[at]
	in.goes(func() {
		var h heard
		h.said, h.more, h.err = in.since(ctx, at, last)
		in.learnNames(ctx, h.said)
		select {
		case in.past.told <- h:
		case <-ctx.Done():
		}
	})
	return nil
}

// hearPast takes over what was read of a history.
func (in *receiving) hearPast(ctx context.Context, h heard) {
	p := &in.past
	if p.read, p.more, p.queue = h.err == nil, h.more, h.said; !p.read {
		in.untold(ctx, p.at, h.err)
	}
	in.leavePast()
}

// takePast takes the next message of a history, or of what has waited for it.
func (in *receiving) takePast(ctx context.Context) error {
	p := &in.past
	m := p.queue[0]
	if p.read {
		in.places.reach(p.at, m.TS, true)
	}
	if channel, _, thread := parts(p.at); !thread && m.Latest != "" && before(m.TS, m.Latest) {
		replies := id(channel, m.TS) // saved with the message: no crash is between the two
		in.places.reach(replies, m.TS, true)
		in.places.left[replies] = true
	}
	if err := in.one(ctx, m, time.Time{}); err != nil {
		return err
	}
	p.queue = p.queue[1:]
	in.leavePast()
	return nil
}

// leavePast goes on with what waits for a history that was taken, and then with another
// room. A history may be older than an envelope that came while it was read, so what
// waits is taken in any case: its key is known if the history had it.
func (in *receiving) leavePast() {
	p := &in.past
	if len(p.queue) > 0 {
		return
	}
	if waits := p.passed[p.at]; len(waits) > 0 && !p.more {
		p.queue, p.held = waits, p.held-len(waits)
		delete(p.passed, p.at)
		return
	}
	if p.read && !p.more {
		delete(in.places.left, p.at)
	}
	p.at, p.queue, p.read = "", nil, false
}

// untold decides what becomes of a room whose history cannot be read: a refusal that
// concerns the room leaves it out, and it is read later after any other error.
func (in *receiving) untold(ctx context.Context, at string, err error) {
	switch {
	case refusedAs(err, ofScope):
		in.once.Do(func() { in.link.ReportError(fmt.Errorf("what was said meanwhile is not known everywhere: %w", err)) })
		delete(in.places.left, at)
		return
	case refusedAs(err, ofToken):
		in.goes(func() { in.checkToken(ctx) })
	case refusedAs(err, ofMessage, ofRoom, ofAbsence):
		in.link.Log().Info("the history of a room cannot be read", "room", at, "error", err)
		in.places.forget(at)
		return
	}
	in.link.Log().Info("the history of a room is read later", "room", at, "error", err)
	after := afterOf(err)
	if after == 0 {
		after = someWait
	}
	if refusedAs(err, ofPace) {
		in.past.quiet = time.Now().Add(after)
	} else {
		in.past.later[at] = time.Now().Add(after)
	}
}

// since are messages of a room after one, in their order. A channel is told from its
// end, and what is too far back is lost; a thread from its beginning, and there may be
// more of it.
func (c *connection) since(ctx context.Context, at, last string) (said []message, more bool, err error) {
	channel, thread, ok := parts(at)
	if !ok {
		channel, thread = at, ""
	}
	cursor := ""
	for range mostPages {
		page, next, err := c.page(ctx, channel, thread, last, cursor, false)
		if err != nil {
			return nil, false, err
		}
		for _, m := range page {
			if before(last, m.TS) {
				said = append(said, m)
			}
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	if cursor != "" && thread == "" {
		c.link.ReportError(fmt.Errorf("more was said in %s meanwhile than is read: %d messages are", at, len(said)))
	}
	slices.SortFunc(said, func(a, b message) int {
		if before(a.TS, b.TS) {
			return -1
		}
		return 1
	})
	return said, cursor != "" && thread != "" && len(said) > 0, nil
}

// page reads a part of a history: of a channel, or of a thread in it. next is where
// the rest of it is, "" for none.
func (c *connection) page(ctx context.Context, channel, thread, oldest, cursor string, metadata bool) (said []message, next string, err error) {
	method, in := "conversations.history", values("channel", channel, "ts", thread, "oldest", oldest, "cursor", cursor, "limit", fmt.Sprint(onePage))
	if thread != "" {
		method = "conversations.replies"
	}
	if metadata {
		in.Set("include_all_metadata", "true")
	}
	var out struct {
		Messages []json.RawMessage `json:"messages"`
		More     bool              `json:"has_more"`
		Metadata struct {
			Cursor string `json:"next_cursor"`
		} `json:"response_metadata"`
	}
	if _, err := c.client.call(ctx, call{what: "read a history", method: method, in: in, out: &out}); err != nil {
		return nil, "", err
	}
	for _, raw := range out.Messages {
		var m message
		if err := json.Unmarshal(raw, &m); err != nil || !timeForm.MatchString(m.TS) {
			c.link.Log().Warn("a message of a history is not understood and left out", "channel", channel, "error", err)
			continue
		}
		m.Channel = channel
		said = append(said, m)
	}
	if out.More {
		next = out.Metadata.Cursor
	}
	return said, next, nil
}
