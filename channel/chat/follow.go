package chat

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/internal/display"
	"mailroom/internal/recovery"
	"mailroom/stream"
)

// Follower follows threads, see [stream.Streams].
type Follower interface {
	Follow(ctx context.Context, q stream.Query, emit func(stream.Event) error) error
}

const (
	// maxWatches bounds the conversations that are shown while they go on, at once.
	// Of others only the replies are sent.
	maxWatches = 256
	// typingInterval is how often typing is shown anew: platforms show it for 5 s or more.
	typingInterval = 4 * time.Second
	// minRefresh is the shortest time between two looks at what is to be shown.
	minRefresh = 500 * time.Millisecond
	// maxPreviewRequests is how often a preview of one message is asked for: other things may
	// go first each time.
	maxPreviewRequests = 5
	// unfinishedMark is at the end of a text that is still being written.
	unfinishedMark = " …"
)

// Labels of what the channel says to itself: that a message is to be shown while a run
// writes it.
const (
	labelPreview        = "preview" // the run
	labelPreviewMessage = "writes"  // the message
)

// shared is what of a channel's outbound half outlives its connections.
type shared struct {
	limiter *limiter

	// Owned by mu.
	mu        sync.Mutex
	previews  map[string]*livePreview // by the run of the conversation
	watched   map[string]watch        // by thread: what a connection shows, and the next one is to
	questions map[string]*question    // by ticket
}

// previews is the text that a run is writing, as it is shown.
type livePreview struct {
	text      string // so far
	messageID string // id of the message that shows it, "" for none
	shownText string // there
}

func newShared() *shared {
	return &shared{limiter: newLimiter(), previews: map[string]*livePreview{}, watched: map[string]watch{}, questions: map[string]*question{}}
}

// dropPreview forgets the preview of a run: nobody edits it any more.
func (s *shared) dropPreview(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.previews, run)
}

// previewOf is what is shown of a run; zero for nothing.
func (s *shared) previewOf(run string) livePreview {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.previews[run]; l != nil {
		return *l
	}
	return livePreview{}
}

// updatePreview changes what is shown of a run.
func (s *shared) updatePreview(run string, f func(l *livePreview)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.previews[run]
	if l == nil {
		l = &livePreview{}
		s.previews[run] = l
	}
	f(l)
}

// saveWatch remembers what is shown, for the next connection too, until it is over.
func (s *shared) saveWatch(w watch, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if over {
		delete(s.watched, w.thread)
	} else {
		s.watched[w.thread] = w
	}
}

// savedWatches is what the connection before has shown, and was not over.
func (s *shared) savedWatches() []watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.watched))
}

// watchThread asks for a conversation to be shown while it goes on.
type watch struct {
	thread   string
	room     Room
	afterSeq int64 // seq of what was said; 0: of what was said last
}

// watchThread shows in a room what a conversation writes from an entry on, until it ends
// or waits. It is best effort: what it says is delivered in any case.
func (o *outbound) watchThread(thread string, at Room, after int64) {
	if o.options.Follow == nil || !(o.caps.Edits && o.options.Previews) && !o.caps.Typing {
		return
	}
	select {
	case o.watches <- watch{thread: thread, room: at, afterSeq: after}:
	default: // too much goes on
	}
}

// maintain watches what it is asked to, and what becomes of questions, until ctx ends.
func (o *outbound) maintain(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	watched, ended := map[string]*watch{}, make(chan string)
	begin := func(w watch) {
		watched[w.thread] = nil
		o.saveWatch(w, false)
		all.Go(func() {
			defer recovery.Log(o.host.Log(), "what shows a conversation")
			if err := catchPanic(func() error { return o.showThread(ctx, w) }); err != nil && ctx.Err() == nil {
				o.host.Log().Debug("a conversation is not shown while it goes on", "thread", w.thread, "error", err)
			}
			select {
			case ended <- w.thread:
			case <-ctx.Done():
			}
		})
	}
	for _, w := range o.savedWatches() {
		begin(w)
	}
	all.Go(func() {
		defer recovery.Log(o.host.Log(), "what redraws questions")
		if err := catchPanic(func() error { o.refreshQuestions(ctx); return nil }); err != nil {
			o.host.Log().Error("questions are redrawn with the next delivery alone", "error", err)
		}
	})
	for {
		select {
		case w := <-o.watches:
			if _, already := watched[w.thread]; already {
				watched[w.thread] = &w // it may end just now
			} else if len(watched) < maxWatches {
				begin(w)
			}
		case thread := <-ended:
			next := watched[thread]
			delete(watched, thread)
			o.saveWatch(watch{thread: thread}, true)
			if next != nil {
				begin(*next)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// viewer is what one conversation is doing, as its reader has it.
type viewer struct {
	*outbound
	watch

	// Owned by mu.
	mu      sync.Mutex
	run     string // that works; "" for none
	message string // that it writes; "" for none
	text    string // of it

	// Owned by the goroutine of pace.
	requestedFor string    // message for which a preview was asked
	requests     int       // how often
	nextRequest  time.Time // when it may be asked again
	lastRun      string    // run that was shown
	lastTyping   time.Time
}

// showThread follows a conversation and shows what it writes.
func (o *outbound) showThread(ctx context.Context, w watch) error {
	if w.afterSeq == 0 {
		err := o.host.View(ctx, func(r mailroom.Reader) error {
			rows, err := r.Threads(mailroom.ThreadQuery{IDs: []string{w.thread}})
			for _, t := range rows {
				w.afterSeq = t.LastSeq
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	v := &viewer{outbound: o, watch: w}
	following, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer func() {
		cancel()
		beside.Wait()
		if ctx.Err() == nil { // else it goes on over the next connection
			v.dropPreview(v.lastRun)
		}
	}()
	beside.Go(func() {
		defer recovery.Log(o.host.Log(), "what shows a conversation")
		if err := catchPanic(func() error { v.refreshLoop(ctx, following.Done()); return nil }); err != nil {
			o.host.Log().Error("a conversation is not shown any more", "thread", w.thread, "error", err)
		}
	})
	return o.options.Follow.Follow(following, stream.Query{
		Thread: w.thread, After: stream.Cursor{Seq: w.afterSeq}, Until: stream.UntilWaiting,
	}, func(e stream.Event) error {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.onEvent(e)
		return nil
	})
}

// onEvent notes what a reader got; within mu.
func (v *viewer) onEvent(e stream.Event) {
	switch {
	case e.Delta != nil:
		d := e.Delta
		if v.message != d.Message {
			v.message, v.text = d.Message, ""
		}
		if d.Offset <= len(v.text) {
			v.run, v.text = d.Run, v.text[:d.Offset]+d.Text
		}
	case e.Entry == nil:
	case e.Entry.Kind == mailroom.KindStarted, e.Entry.Kind == mailroom.KindResumed:
		v.run, v.message, v.text = e.Entry.Run, "", ""
	case e.Entry.Run != v.run:
	case e.Entry.Kind == mailroom.KindMessage:
		v.message, v.text = "", ""
	case e.Entry.Kind == mailroom.KindRescheduled, e.Entry.Kind == mailroom.KindWaiting,
		e.Entry.Kind == mailroom.KindCompleted, e.Entry.Kind == mailroom.KindFailed, e.Entry.Kind == mailroom.KindCancelled:
		v.run, v.message, v.text = "", "", ""
	}
}

// refreshLoop shows now and then what there is to show, until it is over. A call that is
// under way then is not broken off: what the platform makes of it could come after
// the final text, or what it asks for be lost.
func (v *viewer) refreshLoop(ctx context.Context, over <-chan struct{}) {
	turn := time.NewTicker(max(v.caps.EditInterval, minRefresh))
	defer turn.Stop()
	for {
		v.mu.Lock()
		run, message, text := v.run, v.message, v.text
		v.mu.Unlock()
		if run != "" {
			err := v.refresh(ctx, run, message, text)
			if err != nil && ctx.Err() == nil && !errors.Is(err, errNotNow) {
				v.host.Log().Debug("what is written cannot be shown", "run", run, "error", err)
			}
		}
		select {
		case <-turn.C:
		case <-over:
			return
		}
	}
}

// refresh shows what a run writes, or that it works.
func (v *viewer) refresh(ctx context.Context, run, message, text string) error {
	v.lastRun = run
	shown := headOf(display.Text(text), v.caps, unfinishedMark)
	if !v.caps.Edits || !v.options.Previews || shown == "" {
		if !v.caps.Typing || time.Since(v.lastTyping) < typingInterval {
			return nil
		}
		v.lastTyping = time.Now()
		return v.limiter.do(ctx, v.room, v.caps, priorityTyping, func(ctx context.Context) error { return v.platform.Typing(ctx, v.room) })
	}
	l := v.previewOf(run)
	if l.messageID == "" {
		if v.requestedFor != message {
			v.requestedFor, v.requests, v.nextRequest = message, 0, time.Time{}
		}
		if v.requests == maxPreviewRequests || time.Now().Before(v.nextRequest) || !v.limiter.isFree(v.room, priorityEdit) {
			return nil
		}
		v.requests++
		v.nextRequest = time.Now().Add(time.Duration(v.requests) * 3 * max(v.caps.EditInterval, minRefresh))
		v.updatePreview(run, func(l *livePreview) { l.text = text })
		return v.host.Answer(ctx, channel.Answer{
			Room: v.room.words(v.caps.BotID), Key: fmt.Sprintf("preview/%s/%d", message, v.requests), Text: unfinishedMark, Later: true,
			Metadata: v.room.previewLabels(run, message),
		})
	}
	if l.shownText == shown {
		return nil
	}
	err := v.limiter.do(ctx, v.room, v.caps, priorityEdit, func(ctx context.Context) error {
		if v.previewOf(run).messageID != l.messageID {
			return errNotNow // it has become something else
		}
		return v.platform.Edit(ctx, v.room, l.messageID, Message{Text: shown})
	})
	switch {
	case err == nil:
		v.updatePreview(run, func(now *livePreview) {
			if now.messageID == l.messageID {
				now.shownText = shown
			}
		})
	case isRefused(err), errors.Is(err, ErrGone):
		v.dropPreview(run)
	}
	return err
}

// messageID are the labels of the wish for a preview in a room.
func (p Room) previewLabels(run, message string) map[string]string {
	labels := p.labels()
	labels[labelPreview], labels[labelPreviewMessage] = run, message
	return labels
}
