package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/command"
	"mailroom/internal/recovery"
)

// backlog holds events that wait for the download of their files. A download can take minutes and
// must not delay other conversations. So an event with files is first stored durably, which moves
// the cursor. Then a goroutine of its conversation downloads the files and handles the event.
// Later events of the same conversation queue behind it; others are not affected.
//
// The next connection resumes the stored backlog. An event that was handled but not yet removed
// is handled again, which its key makes harmless.
type backlog struct {
	slots chan struct{} // holds a value for each event with a download in progress

	// Owned by mu.
	mu      sync.Mutex
	lanes   map[string][]*waitingEvent // by conversation, in order; the first is being handled
	events  int
	bytes   int
	changed chan struct{} // closed and replaced when an event leaves
}

// waitingEvent is an event of the backlog.
type waitingEvent struct {
	event       chat.Event
	stored      storedEvent
	bytes       int
	fetching    context.Context // ends when its files are abandoned
	cancelFetch context.CancelFunc
}

// Bounds of a backlog.
const (
	maxFetching  = 4         // events with downloads in progress
	maxWaiting   = 64        // events
	maxLane      = 8         // events of one conversation
	maxWaitBytes = 512 << 10 // of all stored events
	maxWaitEvent = 128 << 10 // of one stored event
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
	k := storedEvent{Kind: e.Kind, Key: e.Key, Room: e.Room, User: e.User.ID, Name: e.User.Name, Text: e.Text, Addressed: e.Addressed, Of: e.TargetID}
	for _, f := range e.Files {
		k.Files = append(k.Files, storedFile{f.Name, f.MimeType, f.Size, f.URI, f.Ref, f.Open != nil})
	}
	return k
}

func (k storedEvent) event(p chat.Platform) chat.Event {
	e := chat.Event{Kind: k.Kind, Key: k.Key, Room: k.Room, User: chat.User{ID: k.User, Name: k.Name}, Text: k.Text, Addressed: k.Addressed, TargetID: k.Of}
	for _, f := range k.Files {
		file := chat.File{Name: f.Name, MimeType: f.MimeType, Size: f.Size, URI: f.URI, Ref: f.Ref}
		if f.Opens {
			p.SetOpen(&file)
		}
		e.Files = append(e.Files, file)
	}
	return e
}

func newBacklog() *backlog {
	return &backlog{slots: make(chan struct{}, maxFetching), lanes: map[string][]*waitingEvent{}, changed: make(chan struct{})}
}

// enqueue puts an event into the backlog if its files must be downloaded or an earlier event of
// its conversation waits. It reports false if the event can be handled now.
func (in *inbound) enqueue(ctx context.Context, e *chat.Event, tier chat.Tier) (bool, error) {
	stops, ordered := in.ordered(e, tier)
	if !ordered {
		return false, nil
	}
	lane := in.threadID(e, "")
	if stops {
		in.backlog.abandonFiles(lane)
	}
	if !in.backlog.hasLane(lane) {
		if fetch, err := in.needsFetch(ctx, e); err != nil || !fetch {
			return false, err
		}
	}
	return in.backlog.add(ctx, in, lane, e)
}

// ordered reports whether an event keeps its order within its conversation, and whether it stops
// the events before it. A decision or a status request acts at once.
func (in *inbound) ordered(e *chat.Event, tier chat.Tier) (stops, ordered bool) {
	switch {
	case e.Kind == chat.EventDeleted:
		return false, true
	case tier == chat.TierStranger:
		return false, false
	case e.Kind == chat.EventEdited:
		return false, true
	case e.Kind != chat.EventMessage:
		return false, false
	}
	p, why := in.parse(e)
	switch {
	case why != "" || p.Suggestion != "":
		return false, false
	case p.Command == "" || p.Command == command.Queue || p.Command == command.Steer || p.Command == command.New:
		return false, true
	}
	return p.Command == command.Stop, p.Command == command.Stop
}

// needsFetch reports whether files must be downloaded. Those of a message that was submitted
// before need not.
func (in *inbound) needsFetch(ctx context.Context, e *chat.Event) (bool, error) {
	if !slices.ContainsFunc(e.Files, func(f chat.File) bool { return f.Open != nil }) {
		return false, nil
	}
	if e.Kind != chat.EventMessage {
		return e.Kind == chat.EventEdited, nil
	}
	c, err := in.loadConversation(ctx, e)
	if err != nil {
		return false, err
	}
	known, err := in.submittedBefore(ctx, e, c)
	return known == nil, err
}

// errWithheld is the reason for skipping a download.
var errWithheld = errors.New("too many downloads in progress")

// withoutFetch returns the files with downloads that fail with errWithheld.
func withoutFetch(files []chat.File) []chat.File {
	files = slices.Clone(files)
	for i := range files {
		if files[i].Open != nil {
			files[i].Open = func(context.Context) (io.ReadCloser, error) { return nil, errWithheld }
		}
	}
	return files
}

// add stores an event in the backlog. It reports false if the backlog is full and nothing of the
// conversation waits. If the conversation itself has too many events, add abandons their files to
// drain it.
func (b *backlog) add(ctx context.Context, in *inbound, lane string, e *chat.Event) (bool, error) {
	k := encodeEvent(e)
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
			return true, in.skip(ctx, e, "stored in the backlog")
		case fits:
			if err := in.updateBacklog(ctx, func(kept []storedEvent) []storedEvent { return append(removeEvent(kept, k), k) }); err != nil {
				return false, err
			}
			b.start(in, lane, k, *e, len(raw))
			return true, in.skip(ctx, e, "stored in the backlog")
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
func (b *backlog) start(in *inbound, lane string, k storedEvent, e chat.Event, bytes int) {
	w := &waitingEvent{event: e, stored: k, bytes: bytes}
	w.fetching, w.cancelFetch = context.WithCancel(in.ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lanes[lane] = append(b.lanes[lane], w)
	b.events++
	b.bytes += bytes
	if len(b.lanes[lane]) == 1 {
		in.wg.Go(func() {
			defer recovery.Handle(in.host.Log(), "backlog lane", func(p *recovery.Panic) { in.fail(p) })
			if err := catchPanic(func() error { return b.runLane(in, lane) }); err != nil {
				in.fail(err)
			}
		})
	}
}

// runLane handles the events of a lane in order until it is empty.
func (b *backlog) runLane(in *inbound, lane string) error {
	for {
		b.mu.Lock()
		w := b.lanes[lane][0]
		b.mu.Unlock()
		if err := b.handleWaiting(in, w); err != nil {
			return err
		}
		if err := in.updateBacklog(in.ctx, func(kept []storedEvent) []storedEvent { return removeEvent(kept, w.stored) }); err != nil {
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

// handleWaiting handles one event. Its files are downloaded once a slot is free.
func (b *backlog) handleWaiting(in *inbound, w *waitingEvent) error {
	if len(w.event.Files) > 0 {
		select {
		case b.slots <- struct{}{}:
			defer func() { <-b.slots }()
		case <-w.fetching.Done():
		}
	}
	e := w.event
	tier, err := in.loadTier(in.ctx, &e)
	if err != nil {
		return err
	}
	late := &inbound{adapter: in.adapter, receiver: in.receiver, waiting: w}
	return late.handle(in.ctx, &e, tier)
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
func (b *backlog) resume(in *inbound) error {
	raw, err := in.host.ReadValue(in.ctx, backlogKey+in.caps.BotID)
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
		e := k.event(in.platform)
		b.start(in, in.threadID(&e, ""), k, e, len(raw))
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

// updateBacklog updates the stored backlog.
func (in *inbound) updateBacklog(ctx context.Context, f func([]storedEvent) []storedEvent) error {
	return in.host.UpdateValue(ctx, backlogKey+in.caps.BotID, func(raw json.RawMessage, _ time.Time) (json.RawMessage, error) {
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

// receiver is one call of Receive with its background goroutines.
type receiver struct {
	// Set by newReceiver.
	ctx        context.Context // ends when a goroutine fails
	fail       context.CancelCauseFunc
	backlog    *backlog
	background chan struct{} // holds a value for each background call

	wg sync.WaitGroup
}

// maxBackground bounds the background calls of a connection.
const maxBackground = 8

func newReceiver(ctx context.Context) *receiver {
	ctx, end := context.WithCancelCause(ctx)
	return &receiver{ctx: ctx, fail: end, backlog: newBacklog(), background: make(chan struct{}, maxBackground)}
}

// runBackground runs f in a goroutine with a timeout. It reports false without running f if too
// many calls are in progress.
func (r *receiver) runBackground(timeout time.Duration, f func(ctx context.Context)) bool {
	select {
	case r.background <- struct{}{}:
	default:
		return false
	}
	r.wg.Go(func() {
		defer recovery.Handle(nil, "background call", func(p *recovery.Panic) { r.fail(p) })
		defer func() { <-r.background }()
		ctx, cancel := context.WithTimeout(r.ctx, timeout)
		defer cancel()
		err := catchPanic(func() error {
			f(ctx)
			return nil
		})
		if err != nil {
			r.fail(err)
		}
	})
	return true
}

// close waits for the goroutines and returns the first failure.
func (r *receiver) close(err error) error {
	cause := context.Cause(r.ctx) // nil unless a goroutine failed or ctx ended
	r.fail(context.Canceled)
	r.wg.Wait()
	if cause != nil {
		return cause
	}
	return err
}
