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
	"mailroom/channel/httpcall"
)

const (
	maxCursors = 100 // channels, and as many threads, in a position
	pageSize   = 200 // messages in a page of a history
	maxPages   = 10  // most pages of one room in one read
)

// cursors records how far each room was read: the timestamp of its last message, by channel id
// for a channel, and by the id of the root message for a thread. It holds the rooms with the
// most recent messages.
type cursors struct {
	last map[string]string
	// gaps are rooms with an unread history. New messages do not advance their cursors, because
	// the history comes first.
	gaps map[string]bool
}

// parseCursors parses a saved position. All its rooms have gaps. It returns nil for a malformed
// position.
func parseCursors(position string) *cursors {
	p := &cursors{last: map[string]string{}, gaps: map[string]bool{}}
	if position == "" {
		return p
	}
	if err := json.Unmarshal([]byte(position), &p.last); err != nil {
		return nil
	}
	maps.DeleteFunc(p.last, func(at, last string) bool { return at == "" || !timestampPattern().MatchString(last) })
	for at := range p.last {
		p.gaps[at] = true
	}
	return p
}

// String returns the position to save.
func (p *cursors) String() string {
	raw, err := json.Marshal(p.last)
	if err != nil {
		panic(err) // a map of strings always marshals
	}
	return string(raw)
}

// record advances the cursors over a received message. A thread gets a cursor once the bot
// takes part in it.
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

// advance moves the cursor of a room to ts. The cursor of a room with a gap moves only for
// messages of its history.
func (p *cursors) advance(at, ts string, history bool) {
	last, known := p.last[at]
	if p.gaps[at] && !history || known && !isBefore(last, ts) {
		return
	}
	p.last[at] = ts
	if known {
		return
	}
	var alike []string // threads do not displace channels
	for other := range p.last {
		if strings.Contains(other, ":") == strings.Contains(at, ":") {
			alike = append(alike, other)
		}
	}
	if len(alike) > maxCursors {
		p.remove(slices.MinFunc(alike, p.compareByTime))
	}
}

// historyOf returns the room whose history contains a message: its channel, or its thread.
func historyOf(m message) string {
	if m.Thread == "" || m.Thread == m.TS {
		return m.Channel
	}
	return messageID(m.Channel, m.Thread)
}

// compareByTime orders rooms by the last message read.
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

// backfill reads what was sent while the bot was disconnected from the rooms' histories. One
// history is read at a time, concurrently with the loop, which handles its messages.
type backfill struct {
	results chan historyResult
	room    string    // room whose history is being read or handled; "": no room
	readOK  bool      // the read succeeded, so its messages advance the room's cursor
	more    bool      // the history has more pages
	queue   []message // messages of the room to handle
	// deferred are acknowledged messages of rooms whose history comes first. The saved cursors
	// of these rooms are before them, so a crash loses none.
	deferred      map[string][]message
	deferredCount int // deferred messages in all rooms

	pausedUntil time.Time            // time before which no history is requested
	retryAt     map[string]time.Time // by room: time before which its history is not requested
}

// maxDeferred bounds the messages that wait for histories, in all rooms together.
const maxDeferred = 1000

// historyResult is the outcome of reading a history.
type historyResult struct {
	messages []message
	more     bool
	err      error
}

func (p *backfill) init() {
	p.results = make(chan historyResult)
	p.deferred, p.retryAt = map[string][]message{}, map[string]time.Time{}
}

// deferMessage defers a message from an envelope until the history of its room has been
// handled, and reports whether it did. The history contains the message too. Edits and
// deletions are not deferred: no history contains them.
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
		return false // the history is rate limited: do not wait for it
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

// dueAt returns when the history of a room may be requested.
func (p *backfill) dueAt(at string) time.Time {
	if later := p.retryAt[at]; later.After(p.pausedUntil) {
		return later
	}
	return p.pausedUntil
}

// nextGap returns the room whose history is read next, and when: first rooms with deferred
// messages, then the room with the most recent message.
func (in *receiver) nextGap() (at string, due time.Time, ok bool) {
	for room := range in.cursors.gaps {
		d := in.backfill.dueAt(room)
		if !ok || in.dueBefore(room, d, at, due) {
			at, due, ok = room, d, true
		}
	}
	return at, due, ok
}

// dueBefore reports whether the history of room a is read before the history of room b. due and
// other are when they may be requested.
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

// startBackfill starts reading the next history, unless one is being read. It returns a channel
// that fires when the next history may be requested, or nil if there is nothing to wait for.
func (in *receiver) startBackfill(ctx context.Context) (idle <-chan time.Time) {
	if in.backfill.room != "" {
		return nil
	}
	for room := range in.backfill.deferred {
		if !in.cursors.gaps[room] { // cursors of other rooms displaced the cursor of this room
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

// onHistory queues the messages of a history that was read.
func (in *receiver) onHistory(ctx context.Context, h historyResult) {
	p := &in.backfill
	if p.readOK, p.more, p.queue = h.err == nil, h.more, h.messages; !p.readOK {
		in.onHistoryError(ctx, p.room, h.err)
	}
	in.finishRoom()
}

// handleNext handles the next message of a history, or the next deferred one.
func (in *receiver) handleNext(ctx context.Context) error {
	p := &in.backfill
	m := p.queue[0]
	if p.readOK {
		in.cursors.advance(p.room, m.TS, true)
	}
	if channel, _, thread := splitMessageID(p.room); !thread && m.LatestReply != "" && isBefore(m.TS, m.LatestReply) {
		replies := messageID(channel, m.TS) // saved together with the message, so a crash cannot lose the thread
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

// finishRoom moves on once the queue is empty: to the deferred messages of the room, then to
// the next room. Deferred messages are handled even if the history contained them, because it
// may be older than they are; duplicates are recognised by their keys.
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

// onHistoryError handles a failed read: a refusal that concerns the room drops its gap, and any
// other error is retried later.
func (in *receiver) onHistoryError(ctx context.Context, at string, err error) {
	switch {
	case isAPIError(err, subjectScope):
		in.historyWarning.Do(func() {
			in.host.ReportError(fmt.Errorf("messages sent while disconnected are missing in some rooms: %w", err))
		})
		delete(in.cursors.gaps, at)
		return
	case isAPIError(err, subjectToken):
		in.spawn(func() { in.verifyToken(ctx) })
	case isAPIError(err, subjectMessage, subjectRoom, subjectGone):
		in.host.Log().Info("room history not readable", "room", at, "error", err)
		in.cursors.remove(at)
		return
	}
	in.host.Log().Info("room history failed; retrying later", "room", at, "error", err)
	after, _ := httpcall.PauseOf(err)
	if after == 0 {
		after = defaultRetryAfter
	}
	if isAPIError(err, subjectRateLimit) {
		in.backfill.pausedUntil = time.Now().Add(after)
	} else {
		in.backfill.retryAt[at] = time.Now().Add(after)
	}
}

// readSince returns the messages of a room after a timestamp, oldest first. A channel is read
// from its newest message back, and messages beyond maxPages are lost; a thread is read from
// its oldest message on, and more reports that it has further pages.
func (c *connection) readSince(ctx context.Context, at, last string) (messages []message, more bool, err error) {
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
				messages = append(messages, m)
			}
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	if cursor != "" && thread == "" {
		c.host.ReportError(
			fmt.Errorf("messages in %s were skipped: only the last %d of those sent while disconnected were read", at,
				len(messages)))
	}
	slices.SortFunc(messages, func(a, b message) int {
		if isBefore(a.TS, b.TS) {
			return -1
		}
		return 1
	})
	return messages, cursor != "" && thread != "" && len(messages) > 0, nil
}

// historyPage reads a page of the history of a channel, or of a thread in it. next is the
// cursor of the next page, or "".
func (c *connection) historyPage(
	ctx context.Context, channel, thread, oldest, cursor string, metadata bool,
) (messages []message, next string, err error) {
	method, in := "conversations.history", formValues("channel", channel, "ts", thread, "oldest", oldest, "cursor", cursor,
		"limit", fmt.Sprint(pageSize))
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
	if _, err := c.client.call(ctx, request{op: "read history", method: method, params: in, result: &out}); err != nil {
		return nil, "", err
	}
	for _, raw := range out.Messages {
		var m message
		if err := json.Unmarshal(raw, &m); err != nil || !timestampPattern().MatchString(m.TS) {
			c.host.Log().Warn("unreadable message in a history skipped", "channel", channel, "error", err)
			continue
		}
		m.Channel = channel
		messages = append(messages, m)
	}
	if out.More {
		next = out.Metadata.Cursor
	}
	return messages, next, nil
}
