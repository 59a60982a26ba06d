package chat

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
	"mailroom/internal/recovery"
)

// backlog holds the events that wait for files. A file can take minutes, and must not hold
// up what others say: an event with files is first committed to what the channel keeps, and
// its position moves. Then a goroutine of its conversation fetches the files and takes it.
// What follows in that conversation waits behind it; everything else passes by.
//
// The next connection begins with what is kept. An event that was taken and not yet removed
// is taken again, which its key makes harmless.
type backlog struct {
	slots chan struct{} // holds a value for each event whose files are fetched now

	// Owned by mu.
	mu      sync.Mutex
	lanes   map[string][]*waiting // by conversation, in order; the first one is being taken
	events  int
	bytes   int
	changed chan struct{} // closed and replaced when an event has left
}

// waiting is an event of the backlog.
type waiting struct {
	event    Event
	kept     keptEvent
	bytes    int
	fetching context.Context // ends when its files are not waited for any more
	leave    context.CancelFunc
}

// Bounds of a backlog.
const (
	maxFetching  = 4         // events whose files are fetched at once
	maxWaiting   = 64        // events
	maxLane      = 8         // events of one conversation
	maxWaitBytes = 512 << 10 // of all events, as they are kept
	maxWaitEvent = 128 << 10 // of one
	keptBacklog  = "backlog:"
)

// keptEvent is an event as it is kept.
type keptEvent struct {
	Kind      EventKind  `json:"kind"`
	Key       string     `json:"key"`
	Room      Room       `json:"room"`
	User      string     `json:"user"`
	Name      string     `json:"name,omitempty"`
	Text      string     `json:"text,omitempty"`
	Files     []keptFile `json:"files,omitempty"`
	Addressed bool       `json:"addressed,omitempty"`
	Of        string     `json:"of,omitempty"`
}

type keptFile struct {
	Name     string `json:"name,omitempty"`
	MimeType string `json:"mime_type,omitempty"`
	Size     int64  `json:"size"`
	URI      string `json:"uri,omitempty"`
	Ref      string `json:"ref,omitempty"`
	Opens    bool   `json:"opens,omitempty"`
}

func (k keptEvent) same(o keptEvent) bool {
	return k.Kind == o.Kind && k.Key == o.Key && k.Room == o.Room
}

func keep(e *Event) keptEvent {
	k := keptEvent{Kind: e.Kind, Key: e.Key, Room: e.Room, User: e.User.ID, Name: e.User.Name, Text: e.Text, Addressed: e.Addressed, Of: e.TargetID}
	for _, f := range e.Files {
		k.Files = append(k.Files, keptFile{f.Name, f.MimeType, f.Size, f.URI, f.Ref, f.Open != nil})
	}
	return k
}

func (k keptEvent) event(p Platform) Event {
	e := Event{Kind: k.Kind, Key: k.Key, Room: k.Room, User: User{k.User, k.Name}, Text: k.Text, Addressed: k.Addressed, TargetID: k.Of}
	for _, f := range k.Files {
		file := File{Name: f.Name, MimeType: f.MimeType, Size: f.Size, URI: f.URI, Ref: f.Ref}
		if f.Opens {
			p.SetOpen(&file)
		}
		e.Files = append(e.Files, file)
	}
	return e
}

func newBacklog() *backlog {
	return &backlog{slots: make(chan struct{}, maxFetching), lanes: map[string][]*waiting{}, changed: make(chan struct{})}
}

// waits makes an event wait if its files must be fetched, or if an earlier event of its
// conversation waits; false if it can be handled now.
func (in *inbound) waits(ctx context.Context, e *Event, tier Tier) (bool, error) {
	stops, ordered := in.ordered(e, tier)
	if !ordered {
		return false, nil
	}
	lane := in.thread(e, "")
	if stops {
		in.backlog.hurry(lane)
	}
	if !in.backlog.busy(lane) {
		if fetch, err := in.fetches(ctx, e); err != nil || !fetch {
			return false, err
		}
	}
	return in.backlog.add(ctx, in, lane, e)
}

// ordered reports whether an event has its place among the others of its conversation, and
// whether it stops those before it. A decision or a question about the status has none: it
// acts at once.
func (in *inbound) ordered(e *Event, tier Tier) (stops, ordered bool) {
	switch {
	case e.Kind == EventDeleted:
		return false, true
	case tier == TierStranger:
		return false, false
	case e.Kind == EventEdited:
		return false, true
	case e.Kind != EventMessage:
		return false, false
	}
	p, why := in.phrase(e)
	switch {
	case why != "" || p.near != "":
		return false, false
	case p.command == "" || p.command == cmdQueue || p.command == cmdSteer || p.command == cmdNew:
		return false, true
	}
	return p.command == cmdStop, p.command == cmdStop
}

// fetches reports whether the platform has to be asked for files of an event: they are not
// of a message that was taken before.
func (in *inbound) fetches(ctx context.Context, e *Event) (bool, error) {
	if !slices.ContainsFunc(e.Files, func(f File) bool { return f.Open != nil }) {
		return false, nil
	}
	if e.Kind != EventMessage {
		return e.Kind == EventEdited, nil
	}
	c, err := in.conversation(ctx, e)
	if err != nil {
		return false, err
	}
	known, err := in.heardBefore(ctx, e, c)
	return known == nil, err
}

// errWithheld is why a file is not fetched although the platform has it.
var errWithheld = errors.New("too many files are being fetched")

// withhold leaves out the files that would have to be fetched.
func withhold(files []File) []File {
	files = slices.Clone(files)
	for i := range files {
		if files[i].Open != nil {
			files[i].Open = func(context.Context) (io.ReadCloser, error) { return nil, errWithheld }
		}
	}
	return files
}

// add has an event wait; false if there is no room for it and nothing of its conversation
// waits. Where too much of one conversation waits, the files of that are left out: then it
// goes on at once.
func (b *backlog) add(ctx context.Context, in *inbound, lane string, e *Event) (bool, error) {
	k := keep(e)
	raw, err := json.Marshal(k)
	if err != nil {
		return false, fmt.Errorf("encode an event that waits: %w", err)
	}
	for {
		b.mu.Lock()
		before, changed := b.lanes[lane], b.changed
		fits := b.events < maxWaiting && len(before) < maxLane && b.bytes+len(raw) <= maxWaitBytes && len(raw) <= maxWaitEvent
		b.mu.Unlock()
		switch {
		case slices.ContainsFunc(before, func(w *waiting) bool { return w.kept.same(k) }):
			return true, in.pass(ctx, e, "it waits for its files")
		case fits:
			if err := in.changeBacklog(ctx, func(kept []keptEvent) []keptEvent { return append(without(kept, k), k) }); err != nil {
				return false, err
			}
			b.start(in, lane, k, *e, len(raw))
			return true, in.pass(ctx, e, "it waits for its files")
		case len(before) == 0:
			return false, nil
		}
		b.hurry(lane)
		select {
		case <-changed:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// start puts an event that is kept into its lane, and starts the lane's goroutine if
// none runs.
func (b *backlog) start(in *inbound, lane string, k keptEvent, e Event, bytes int) {
	w := &waiting{event: e, kept: k, bytes: bytes}
	w.fetching, w.leave = context.WithCancel(in.ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lanes[lane] = append(b.lanes[lane], w)
	b.events++
	b.bytes += bytes
	if len(b.lanes[lane]) == 1 {
		in.wg.Go(func() {
			defer recovery.Handle(in.link.Log(), "a lane of a channel", func(p *recovery.Panic) { in.end(p) })
			if err := guarded(func() error { return b.work(in, lane) }); err != nil {
				in.end(err)
			}
		})
	}
}

// work takes the events of a lane, one after the other, until there are none.
func (b *backlog) work(in *inbound, lane string) error {
	for {
		b.mu.Lock()
		w := b.lanes[lane][0]
		b.mu.Unlock()
		if err := b.take(in, w); err != nil {
			return err
		}
		if err := in.changeBacklog(in.ctx, func(kept []keptEvent) []keptEvent { return without(kept, w.kept) }); err != nil {
			return err
		}
		w.leave()
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

// take takes one event: what it needs of files is fetched once there is a slot.
func (b *backlog) take(in *inbound, w *waiting) error {
	if len(w.event.Files) > 0 {
		select {
		case b.slots <- struct{}{}:
			defer func() { <-b.slots }()
		case <-w.fetching.Done():
		}
	}
	e := w.event
	tier, err := in.tier(in.ctx, &e)
	if err != nil {
		return err
	}
	late := &inbound{adapter: in.adapter, receiving: in.receiving, late: w}
	return late.handle(in.ctx, &e, tier)
}

// hurry leaves out the files of a conversation that were not fetched yet.
func (b *backlog) hurry(lane string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.lanes[lane] {
		w.leave()
	}
}

// busy reports whether something of a conversation waits.
func (b *backlog) busy(lane string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.lanes[lane]) > 0
}

// resume goes on with what an earlier connection has left.
func (b *backlog) resume(in *inbound) error {
	raw, err := in.link.ReadValue(in.ctx, keptBacklog+in.traits.BotID)
	if err != nil {
		return err
	}
	kept, err := readBacklog(raw)
	if err != nil {
		return err
	}
	for _, k := range kept {
		raw, err := json.Marshal(k)
		if err != nil {
			return fmt.Errorf("encode an event that waits: %w", err)
		}
		e := k.event(in.platform)
		b.start(in, in.thread(&e, ""), k, e, len(raw))
	}
	return nil
}

func readBacklog(raw json.RawMessage) (kept []keptEvent, err error) {
	if raw == nil {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &kept); err != nil {
		return nil, channel.Fatal(fmt.Errorf("read the events that wait for files: %w", err))
	}
	return kept, nil
}

func without(kept []keptEvent, gone keptEvent) []keptEvent {
	return slices.DeleteFunc(kept, gone.same)
}

// changeBacklog changes what is kept of the backlog.
func (in *inbound) changeBacklog(ctx context.Context, f func([]keptEvent) []keptEvent) error {
	return in.link.UpdateValue(ctx, keptBacklog+in.traits.BotID, func(raw json.RawMessage, _ time.Time) (json.RawMessage, error) {
		kept, err := readBacklog(raw)
		if err != nil {
			return nil, err
		}
		if kept = f(kept); len(kept) == 0 {
			return json.RawMessage("[]"), nil
		}
		return json.Marshal(kept)
	})
}

// receiving is one time of receiving, with what goes on beside it.
type receiving struct {
	// Set by newReceiving.
	ctx     context.Context // ends when one part fails
	end     context.CancelCauseFunc
	backlog *backlog
	aside   chan struct{} // holds a value for each call that goes on beside

	wg sync.WaitGroup
}

// maxAside bounds the calls of the platform that go on beside receiving.
const maxAside = 8

func newReceiving(ctx context.Context) *receiving {
	ctx, end := context.WithCancelCause(ctx)
	return &receiving{ctx: ctx, end: end, backlog: newBacklog(), aside: make(chan struct{}, maxAside)}
}

// beside runs f on its own goroutine, with a context that bounds it. It does nothing if
// many run already, and reports whether f runs.
func (r *receiving) beside(timeout time.Duration, f func(ctx context.Context)) bool {
	select {
	case r.aside <- struct{}{}:
	default:
		return false
	}
	r.wg.Go(func() {
		defer recovery.Handle(nil, "what goes on beside receiving", func(p *recovery.Panic) { r.end(p) })
		defer func() { <-r.aside }()
		ctx, cancel := context.WithTimeout(r.ctx, timeout)
		defer cancel()
		err := guarded(func() error {
			f(ctx)
			return nil
		})
		if err != nil {
			r.end(err)
		}
	})
	return true
}

// close waits for what goes on beside, and returns why receiving ended: what failed first.
func (r *receiving) close(err error) error {
	cause := context.Cause(r.ctx) // nil unless a part beside has failed, or ctx has ended
	r.end(context.Canceled)
	r.wg.Wait()
	if cause != nil {
		return cause
	}
	return err
}
