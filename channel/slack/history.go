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
	maxCursors = 100 // channels, and threads, of which the position knows how far they were read
	pageSize   = 200 // messages
	maxPages   = 10  // of one room, at once
)

// cursors are how far the rooms were read that were heard of last: the time of the last
// message of a channel, by its id, and of a thread, by the id of what began it.
type cursors struct {
	last map[string]string
	// gaps are rooms whose history is to be read. What comes meanwhile does not move
	// them: it is not the next after what was read.
	gaps map[string]bool
}

// parseCursors reads a position; nil if it is none. All its rooms are left.
func parseCursors(position string) *cursors {
	p := &cursors{last: map[string]string{}, gaps: map[string]bool{}}
	if position == "" {
		return p
	}
	if err := json.Unmarshal([]byte(position), &p.last); err != nil {
		return nil
	}
	maps.DeleteFunc(p.last, func(at, last string) bool { return at == "" || !timestampPattern.MatchString(last) })
	for at := range p.last {
		p.gaps[at] = true
	}
	return p
}

// String is the position.
func (p *cursors) String() string {
	raw, err := json.Marshal(p.last)
	if err != nil {
		panic(err) // it is text
	}
	return string(raw)
}

// record notes a message that came. A thread is one to know of once the bot has to do
// with it.
func (p *cursors) record(m message, e chat.Event, bot string) {
	if at := historyOf(m); at == m.Channel {
		p.advance(at, m.TS, false)
	}
	if e.Room.Topic == "" {
		return
	}
	at := messageID(m.Channel, e.Room.Topic)
	if _, known := p.last[at]; known || e.Addressed || m.ParentUser == bot {
		p.advance(at, m.TS, false)
	}
}

// advance moves a room on; one that is left only if that is what its history has.
func (p *cursors) advance(at, ts string, history bool) {
	last, known := p.last[at]
	if p.gaps[at] && !history || known && !isBefore(last, ts) {
		return
	}
	p.last[at] = ts
	if known {
		return
	}
	var alike []string // a channel makes no room for threads
	for other := range p.last {
		if strings.Contains(other, ":") == strings.Contains(at, ":") {
			alike = append(alike, other)
		}
	}
	if len(alike) > maxCursors {
		p.remove(slices.MinFunc(alike, p.compareByTime))
	}
}

// historyOf is the room in whose history a message is.
func historyOf(m message) string {
	if m.Thread == "" || m.Thread == m.TS {
		return m.Channel
	}
	return messageID(m.Channel, m.Thread)
}

// compareByTime orders rooms by what was read last.
func (p *cursors) compareByTime(a, b string) int {
	switch x, y := p.last[a], p.last[b]; {
	case isBefore(x, y):
		return -1
	case isBefore(y, x):
		return 1
	}
	return 0
}

func (p *cursors) remove(at string) {
	delete(p.last, at)
	delete(p.gaps, at)
}

// backfill is what was said before it was received, as the histories of rooms have it. One
// history is read at a time, beside the loop, and its messages are taken by the loop.
type backfill struct {
	results chan historyResult
	room    string    // room whose history is being read, or taken; "" for none
	readOK  bool      // it was read, so its messages move the position of the room
	more    bool      // there is more of it
	queue   []message // of the room, to be taken
	// deferred are messages that came as envelopes to rooms whose history goes first, and
	// were acknowledged. Their rooms' saved positions are before them.
	deferred      map[string][]message
	deferredCount int // of them

	pausedUntil time.Time            // no history is read before
	retryAt     map[string]time.Time // nor that of a room
}

// maxDeferred messages wait for histories, in all rooms together.
const maxDeferred = 1000

// historyResult is a part of a history.
type historyResult struct {
	messages []message
	more     bool
	err      error
}

func (p *backfill) init() {
	p.results = make(chan historyResult)
	p.deferred, p.retryAt = map[string][]message{}, map[string]time.Time{}
}

// deferMessage reports whether a message that came as an envelope waits for the history of its
// room: the history has it too, and goes before it. What is changed or deleted does not:
// no history tells that.
func (in *receiver) deferMessage(m message) bool {
	p, at := &in.backfill, historyOf(m)
	last, known := in.cursors.last[at]
	switch {
	case m.Subtype == "message_changed" || m.Subtype == "message_deleted":
		return false
	case p.room != at && !in.cursors.gaps[at]:
		return false
	case !known || !isBefore(last, m.TS) || !in.canReadHistory(m.Channel) || p.deferredCount >= maxDeferred:
		return false
	case p.room != at && time.Now().Before(p.dueAt(at)):
		return false // Slack wants to be asked for it later
	}
	p.deferred[at] = append(p.deferred[at], m)
	p.deferredCount++
	return true
}

// canReadHistory reports whether the bot has the scopes for the history of a channel.
func (c *connection) canReadHistory(channel string) bool {
	for _, scope := range c.bot.MissingScopes {
		if kind, history := strings.CutSuffix(scope, ":history"); history && (kind == "im") == isPrivate(channel) {
			return false
		}
	}
	return true
}

// dueAt is when the history of a room can be asked for.
func (p *backfill) dueAt(at string) time.Time {
	if later := p.retryAt[at]; later.After(p.pausedUntil) {
		return later
	}
	return p.pausedUntil
}

// nextGap is the room whose history is to be read next, and when: first those in which
// something waits for it, then the one that was heard of last.
func (in *receiver) nextGap() (at string, due time.Time, ok bool) {
	for room := range in.cursors.gaps {
		d := in.backfill.dueAt(room)
		if !ok || in.dueBefore(room, d, at, due) {
			at, due, ok = room, d, true
		}
	}
	return at, due, ok
}

// dueBefore reports whether the history of room a, which is due at one time, is read before
// that of b.
func (in *receiver) dueBefore(a string, due time.Time, b string, other time.Time) bool {
	now := time.Now()
	switch x, y := due.After(now), other.After(now); {
	case x != y:
		return y
	case x && !due.Equal(other):
		return due.Before(other)
	}
	if x, y := len(in.backfill.deferred[a]) > 0, len(in.backfill.deferred[b]) > 0; x != y {
		return x
	}
	return in.cursors.compareByTime(a, b) > 0
}

// startBackfill has the next history read beside the loop, unless one is. It returns when
// one can be, if there is something to wait for.
func (in *receiver) startBackfill(ctx context.Context) (idle <-chan time.Time) {
	if in.backfill.room != "" {
		return nil
	}
	for room := range in.backfill.deferred {
		if !in.cursors.gaps[room] { // it was left out meanwhile: there are others to remember
			in.backfill.room, in.backfill.readOK, in.backfill.more = room, false, false
			in.finishRoom()
			return time.After(0)
		}
	}
	at, due, ok := in.nextGap()
	if !ok {
		return nil
	}
	if wait := time.Until(due); wait > 0 {
		return time.After(wait)
	}
	in.backfill.room = at
	last := in.cursors.last[at]
	in.spawn(func() {
		var h historyResult
		h.messages, h.more, h.err = in.readSince(ctx, at, last)
		in.fetchNames(ctx, h.messages)
		select {
		case in.backfill.results <- h:
		case <-ctx.Done():
		}
	})
	return nil
}

// onHistory takes over what was read of a history.
func (in *receiver) onHistory(ctx context.Context, h historyResult) {
	p := &in.backfill
	if p.readOK, p.more, p.queue = h.err == nil, h.more, h.messages; !p.readOK {
		in.onHistoryError(ctx, p.room, h.err)
	}
	in.finishRoom()
}

// handleNext takes the next message of a history, or of what has waited for it.
func (in *receiver) handleNext(ctx context.Context) error {
	p := &in.backfill
	m := p.queue[0]
	if p.readOK {
		in.cursors.advance(p.room, m.TS, true)
	}
	if channel, _, thread := splitMessageID(p.room); !thread && m.LatestReply != "" && isBefore(m.TS, m.LatestReply) {
		replies := messageID(channel, m.TS) // saved with the message: no crash is between the two
		in.cursors.advance(replies, m.TS, true)
		in.cursors.gaps[replies] = true
	}
	if err := in.handleMessage(ctx, m, time.Time{}); err != nil {
		return err
	}
	p.queue = p.queue[1:]
	in.finishRoom()
	return nil
}

// finishRoom goes on with what waits for a history that was taken, and then with another
// room. A history may be older than an envelope that came while it was read, so what
// waits is taken in any case: its key is known if the history had it.
func (in *receiver) finishRoom() {
	p := &in.backfill
	if len(p.queue) > 0 {
		return
	}
	if waits := p.deferred[p.room]; len(waits) > 0 && !p.more {
		p.queue, p.deferredCount = waits, p.deferredCount-len(waits)
		delete(p.deferred, p.room)
		return
	}
	if p.readOK && !p.more {
		delete(in.cursors.gaps, p.room)
	}
	p.room, p.queue, p.readOK = "", nil, false
}

// onHistoryError decides what becomes of a room whose history cannot be read: a refusal that
// concerns the room leaves it out, and it is read later after any other error.
func (in *receiver) onHistoryError(ctx context.Context, at string, err error) {
	switch {
	case isAPIError(err, subjectScope):
		in.historyWarning.Do(func() { in.host.ReportError(fmt.Errorf("what was said meanwhile is not known everywhere: %w", err)) })
		delete(in.cursors.gaps, at)
		return
	case isAPIError(err, subjectToken):
		in.spawn(func() { in.verifyToken(ctx) })
	case isAPIError(err, subjectMessage, subjectRoom, subjectGone):
		in.host.Log().Info("the history of a room cannot be read", "room", at, "error", err)
		in.cursors.remove(at)
		return
	}
	in.host.Log().Info("the history of a room is read later", "room", at, "error", err)
	after := retryAfter(err)
	if after == 0 {
		after = defaultRetryAfter
	}
	if isAPIError(err, subjectRateLimit) {
		in.backfill.pausedUntil = time.Now().Add(after)
	} else {
		in.backfill.retryAt[at] = time.Now().Add(after)
	}
}

// readSince are messages of a room after one, in their order. A channel is told from its
// end, and what is too far back is lost; a thread from its beginning, and there may be
// more of it.
func (c *connection) readSince(ctx context.Context, at, last string) (said []message, more bool, err error) {
	channel, thread, ok := splitMessageID(at)
	if !ok {
		channel, thread = at, ""
	}
	cursor := ""
	for range maxPages {
		page, next, err := c.historyPage(ctx, channel, thread, last, cursor, false)
		if err != nil {
			return nil, false, err
		}
		for _, m := range page {
			if isBefore(last, m.TS) {
				said = append(said, m)
			}
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	if cursor != "" && thread == "" {
		c.host.ReportError(fmt.Errorf("more was said in %s meanwhile than is read: %d messages are", at, len(said)))
	}
	slices.SortFunc(said, func(a, b message) int {
		if isBefore(a.TS, b.TS) {
			return -1
		}
		return 1
	})
	return said, cursor != "" && thread != "" && len(said) > 0, nil
}

// historyPage reads a part of a history: of a channel, or of a thread in it. next is where
// the rest of it is, "" for none.
func (c *connection) historyPage(ctx context.Context, channel, thread, oldest, cursor string, metadata bool) (said []message, next string, err error) {
	method, in := "conversations.history", formValues("channel", channel, "ts", thread, "oldest", oldest, "cursor", cursor, "limit", fmt.Sprint(pageSize))
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
	if _, err := c.client.call(ctx, request{op: "read a history", method: method, params: in, result: &out}); err != nil {
		return nil, "", err
	}
	for _, raw := range out.Messages {
		var m message
		if err := json.Unmarshal(raw, &m); err != nil || !timestampPattern.MatchString(m.TS) {
			c.host.Log().Warn("a message of a history is not understood and left out", "channel", channel, "error", err)
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
