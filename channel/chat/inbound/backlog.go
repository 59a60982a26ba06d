package inbound

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
)

// backlog holds events that wait for the download of their files. A download can take minutes and
// must not delay other conversations. So an event with files is first stored durably, which moves
// the cursor. Then a goroutine of its conversation downloads the files and handles the event.
// Later events of the same conversation queue behind it; other conversations do not wait. Messages that belong
// together, such as the pieces of an album, are handled one right after the other once all their files are downloaded:
// a run would otherwise begin with the piece whose download was the fastest.
//
// The next connection resumes the stored backlog. It handles an event again that was handled but not yet removed; this
// is harmless, because a key identifies the event.
type backlog struct {
	// Set by newBacklog.
	host     *channel.Host
	platform chat.Platform
	key      string // key of the stored value
	lane     func(e *chat.Event) string
	work     *background
	handler  waitingHandler
	slots    chan struct{} // holds a value for each event with a download in progress

	// Owned by mu.
	mu      sync.Mutex
	lanes   map[string][]*waitingEvent // events by conversation, in order; the first of each is being handled
	events  int
	bytes   int
	changed chan struct{} // closed and replaced when an event leaves
}

// waitingHandler handles the events of a backlog.
type waitingHandler interface {
	isPlain(w *waitingEvent) bool
	quiet(w *waitingEvent) time.Duration
	belongs(before, next *waitingEvent) bool
	fetchWaiting(ctx context.Context, w *waitingEvent) error
	handleWaiting(ctx context.Context, w *waitingEvent) error
}

// waitingEvent is an event of the backlog.
type waitingEvent struct {
	event       chat.Event
	stored      storedEvent
	bytes       int
	arrived     time.Time       // time when the event arrived at this connection
	fetching    context.Context // ends when the downloads of the event's files are abandoned
	cancelFetch context.CancelFunc

	// Owned by the goroutine of its lane.
	tried   bool            // the downloads of the event have ended, or the event needs no download
	fetched []mailroom.Part // parts for the files of the event
}

// Bounds of a backlog.
const (
	maxFetching  = 4         // most events with downloads in progress
	maxWaiting   = 64        // most waiting events
	maxLane      = 12        // most events of one conversation: an album has up to ten
	maxWaitBytes = 512 << 10 // most bytes of all stored events
	maxWaitEvent = 128 << 10 // most bytes of one stored event
	backlogKey   = "backlog:"
)

// storedEvent is the stored form of an event.
type storedEvent struct {
	Kind      chat.EventKind `json:"kind"`
	Key       string         `json:"key"`
	Room      chat.Room      `json:"room"`
	User      string         `json:"user"`
	Name      string         `json:"name,omitempty"`
	Text      string         `json:"text,omitempty"`
	Files     []storedFile   `json:"files,omitempty"`
	Addressed bool           `json:"addressed,omitempty"`
	Of        string         `json:"of,omitempty"`
	Context   []chat.Context `json:"context,omitempty"`
	Album     string         `json:"album,omitempty"`
	Written   int64          `json:"written,omitempty"` // milliseconds since 1970; 0: unknown
}

type storedFile struct {
	Name     string `json:"name,omitempty"`
	MimeType string `json:"mime_type,omitempty"`
	Size     int64  `json:"size"`
	URI      string `json:"uri,omitempty"`
	Ref      string `json:"ref,omitempty"`
	Opens    bool   `json:"opens,omitempty"`
}

func (k storedEvent) same(o storedEvent) bool {
	return k.Kind == o.Kind && k.Key == o.Key && k.Room == o.Room
}

func encodeEvent(e *chat.Event) storedEvent {
	k := storedEvent{Kind: e.Kind, Key: e.Key, Room: e.Room, User: e.User.ID, Name: e.User.Name, Text: e.Text,
		Addressed: e.Addressed, Of: e.TargetID, Context: e.Context, Album: e.Album}
	if !e.Written.IsZero() {
		k.Written = e.Written.UnixMilli()
	}
	for _, f := range e.Files {
		k.Files = append(k.Files, storedFile{f.Name, f.MimeType, f.Size, f.URI, f.Ref, f.Open != nil})
	}
	return k
}

func (k storedEvent) event(p chat.Platform) chat.Event {
	e := chat.Event{Kind: k.Kind, Key: k.Key, Room: k.Room, User: chat.User{ID: k.User, Name: k.Name}, Text: k.Text,
		Addressed: k.Addressed, TargetID: k.Of, Context: k.Context, Album: k.Album}
	if k.Written != 0 {
		e.Written = time.UnixMilli(k.Written).UTC()
	}
	for _, f := range k.Files {
		file := chat.File{Name: f.Name, MimeType: f.MimeType, Size: f.Size, URI: f.URI, Ref: f.Ref}
		if f.Opens {
			p.SetOpen(&file)
		}
		e.Files = append(e.Files, file)
	}
	return e
}

func newBacklog(
	h *channel.Host, p chat.Platform, bot string, cs *conversations, work *background, handler waitingHandler,
) *backlog {
	return &backlog{
		host: h, platform: p, key: backlogKey + bot, lane: func(e *chat.Event) string {
			return cs.thread(e, "")
		}, work: work, handler: handler,
		slots: make(chan struct{}, maxFetching), lanes: map[string][]*waitingEvent{}, changed: make(chan struct{}),
	}
}

// add stores an event in the backlog. It reports false if the backlog is full and nothing of the
// conversation waits. If the conversation itself has too many events, add abandons their files to
// drain it.
func (b *backlog) add(ctx context.Context, lane string, e chat.Event) (bool, error) {
	k := encodeEvent(&e)
	raw, err := json.Marshal(k)
	if err != nil {
		return false, fmt.Errorf("encode backlog event: %w", err)
	}
	for {
		b.mu.Lock()
		before, changed := b.lanes[lane], b.changed
		fits := b.events < maxWaiting && len(before) < maxLane && b.bytes+len(raw) <= maxWaitBytes && len(raw) <= maxWaitEvent
		b.mu.Unlock()
		switch {
		case slices.ContainsFunc(before, func(w *waitingEvent) bool { return w.stored.same(k) }):
			return true, nil
		case fits:
			if err := b.update(ctx, func(kept []storedEvent) []storedEvent {
				return append(removeEvent(kept, k), k)
			}); err != nil {
				return false, err
			}
			b.start(lane, k, e, len(raw))
			return true, nil
		case len(before) == 0:
			return false, nil
		}
		b.abandonFiles(lane)
		select {
		case <-changed:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// start appends a stored event to its lane and starts the lane's goroutine if none runs.
func (b *backlog) start(lane string, k storedEvent, e chat.Event, bytes int) {
	w := &waitingEvent{event: e, stored: k, bytes: bytes, arrived: time.Now()}
	w.fetching, w.cancelFetch = context.WithCancel(b.work.ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lanes[lane] = append(b.lanes[lane], w)
	b.events++
	b.bytes += bytes
	if len(b.lanes[lane]) == 1 {
		b.work.start("backlog lane", func() error { return b.runLane(lane) })
	}
}

// runLane handles the events of a lane in order until it is empty.
func (b *backlog) runLane(lane string) error {
	for {
		if err := b.fetchTogether(lane); err != nil {
			return err
		}
		w := b.waiting(lane, 0)
		if err := b.handleWaiting(w); err != nil {
			return err
		}
		if err := b.update(b.work.ctx, func(kept []storedEvent) []storedEvent {
			return removeEvent(kept, w.stored)
		}); err != nil {
			return err
		}
		w.cancelFetch()
		b.mu.Lock()
		rest := b.lanes[lane][1:]
		if b.lanes[lane] = rest; len(rest) == 0 {
			delete(b.lanes, lane)
		}
		b.events--
		b.bytes -= w.bytes
		close(b.changed)
		b.changed = make(chan struct{})
		b.mu.Unlock()
		if len(rest) == 0 {
			return nil
		}
	}
}

// waiting returns the i-th event of a lane, or nil.
func (b *backlog) waiting(lane string, i int) *waitingEvent {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i >= len(b.lanes[lane]) {
		return nil
	}
	return b.lanes[lane][i]
}

// fetchTogether downloads the files of the first message of a lane, and of those that belong to it, which may arrive
// during the downloads or soon after them.
func (b *backlog) fetchTogether(lane string) error {
	w := b.waiting(lane, 0)
	if !b.handler.isPlain(w) || w.tried {
		return nil
	}
	until := w.arrived.Add(mailroom.MaxJoin)
	for i := 1; w != nil; i++ {
		if len(w.event.Files) > 0 {
			if err := b.withSlot(w, func() error { return b.handler.fetchWaiting(b.work.ctx, w) }); err != nil {
				return err
			}
		}
		w.tried = true
		next, err := b.awaitNext(lane, i, w, until)
		if err != nil {
			return err
		}
		w = next
	}
	return nil
}

// awaitNext returns the i-th event of a lane, or nil if it does not belong to the event before. It waits for the i-th
// event as long as before waits for more messages, counted from the arrival of before, but not beyond until.
func (b *backlog) awaitNext(lane string, i int, before *waitingEvent, until time.Time) (*waitingEvent, error) {
	latest := before.arrived.Add(b.handler.quiet(before))
	if latest.After(until) {
		latest = until
	}
	for {
		next := b.waiting(lane, i)
		if next != nil && b.handler.belongs(before, next) {
			return next, nil
		}
		wait := time.Until(latest)
		if next != nil || wait <= 0 || before.fetching.Err() != nil {
			return nil, nil
		}
		select {
		case <-time.After(wait):
		case <-before.fetching.Done():
		case <-b.work.ctx.Done():
			return nil, context.Cause(b.work.ctx)
		}
	}
}

// handleWaiting handles one event. The files of one that is no plain message are downloaded now.
func (b *backlog) handleWaiting(w *waitingEvent) error {
	handle := func() error { return b.handler.handleWaiting(b.work.ctx, w) }
	if w.tried || len(w.event.Files) == 0 {
		return handle()
	}
	return b.withSlot(w, handle)
}

// withSlot calls f once a slot is free.
func (b *backlog) withSlot(w *waitingEvent, f func() error) error {
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-w.fetching.Done():
	}
	return f()
}

// abandonFiles cancels the downloads of a conversation.
func (b *backlog) abandonFiles(lane string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.lanes[lane] {
		w.cancelFetch()
	}
}

// hasLane reports whether events of a conversation wait.
func (b *backlog) hasLane(lane string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.lanes[lane]) > 0
}

// resume restarts the backlog of an earlier connection.
func (b *backlog) resume() error {
	raw, err := b.host.ReadValue(b.work.ctx, b.key)
	if err != nil {
		return err
	}
	kept, err := decodeBacklog(raw)
	if err != nil {
		return err
	}
	for _, k := range kept {
		raw, err := json.Marshal(k)
		if err != nil {
			return fmt.Errorf("encode backlog event: %w", err)
		}
		e := k.event(b.platform)
		b.start(b.lane(&e), k, e, len(raw))
	}
	return nil
}

func decodeBacklog(raw json.RawMessage) (kept []storedEvent, err error) {
	if raw == nil {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &kept); err != nil {
		return nil, channel.Fatal(fmt.Errorf("decode backlog: %w", err))
	}
	return kept, nil
}

func removeEvent(kept []storedEvent, gone storedEvent) []storedEvent {
	return slices.DeleteFunc(kept, gone.same)
}

// update updates the stored backlog.
func (b *backlog) update(ctx context.Context, f func([]storedEvent) []storedEvent) error {
	return b.host.UpdateValue(ctx, b.key, func(raw json.RawMessage, _ time.Time) (json.RawMessage, error) {
		kept, err := decodeBacklog(raw)
		if err != nil {
			return nil, err
		}
		if kept = f(kept); len(kept) == 0 {
			return json.RawMessage("[]"), nil
		}
		return json.Marshal(kept)
	})
}
