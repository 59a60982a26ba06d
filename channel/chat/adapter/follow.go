package adapter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/chunk"
	"mailroom/channel/chat/limiter"
	"mailroom/entry"
	"mailroom/internal/display"
	"mailroom/internal/recovery"
	"mailroom/store"
	"mailroom/stream"
)

const (
	// maxWatches bounds the conversations with live previews at once. Others get only their
	// replies.
	maxWatches = 256
	// typingInterval is the time between typing indicators. Platforms show one for at least 5 s.
	typingInterval = 4 * time.Second
	// minRefresh is the minimum time between two refreshes of a preview.
	minRefresh = 500 * time.Millisecond
	// maxPreviewRequests bounds the attempts to send the preview of one message, because other
	// deliveries may come first each time.
	maxPreviewRequests = 5
	// unfinishedMark ends a text that is still being written.
	unfinishedMark = " …"
)

// Labels of the channel's own request to send the preview of a message.
const (
	labelPreview        = "preview" // the run
	labelPreviewMessage = "writes"  // the message
)

// shared is the outbound state of a channel that outlives a connection.
type shared struct {
	limiter *limiter.Limiter

	// Owned by mu.
	mu        sync.Mutex
	previews  map[string]*livePreview     // by run of the conversation
	watched   map[string]watch            // by thread; a new connection resumes them
	questions map[string]*watchedQuestion // by ticket

	asked chan struct{} // signals a new question to refreshQuestions
}

// livePreview is the preview of the text that a run is writing.
type livePreview struct {
	text      string // written so far
	messageID string // of the preview at the platform, "" if it was not sent
	shownText string // in that message
}

func newShared() *shared {
	return &shared{limiter: limiter.New(), previews: map[string]*livePreview{}, watched: map[string]watch{}, questions: map[string]*watchedQuestion{}, asked: make(chan struct{}, 1)}
}

// dropPreview forgets the preview of a run, so that nothing edits it any more.
func (s *shared) dropPreview(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.previews, run)
}

// previewOf returns the preview of a run, zero if there is none.
func (s *shared) previewOf(run string) livePreview {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.previews[run]; l != nil {
		return *l
	}
	return livePreview{}
}

// updatePreview changes the preview of a run.
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

// saveWatch saves a watch for the next connection, or removes it once it is over.
func (s *shared) saveWatch(w watch, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if over {
		delete(s.watched, w.thread)
	} else {
		s.watched[w.thread] = w
	}
}

// savedWatches returns the unfinished watches of the connection before.
func (s *shared) savedWatches() []watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.watched))
}

// watch is a request to show a conversation live in a room.
type watch struct {
	thread   string
	room     chat.Room
	afterSeq int64 // entries after it are shown; 0: after the thread's last entry
}

// watchThread shows in a room what a conversation writes after an entry, until it ends or waits.
// It is best effort, because the reply is delivered in any case.
func (o *outbound) watchThread(thread string, at chat.Room, after int64) {
	if o.options.Follow == nil || !(o.caps.Edits && o.options.Previews) && !o.caps.Typing {
		return
	}
	select {
	case o.watches <- watch{thread: thread, room: at, afterSeq: after}:
	default: // too many requests are queued
	}
}

// maintain runs the watches and redraws decided questions, until ctx ends.
func (o *outbound) maintain(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	watched, ended := map[string]*watch{}, make(chan string)
	begin := func(w watch) {
		watched[w.thread] = nil
		o.saveWatch(w, false)
		all.Go(func() {
			defer recovery.Log(o.host.Log(), "conversation preview")
			if err := catchPanic(func() error { return o.showThread(ctx, w) }); err != nil && ctx.Err() == nil {
				o.host.Log().Debug("cannot follow conversation", "thread", w.thread, "error", err)
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
		defer recovery.Log(o.host.Log(), "question redraw")
		if err := catchPanic(func() error { o.refreshQuestions(ctx); return nil }); err != nil {
			o.host.Log().Error("cannot watch open questions; they refresh with the next delivery", "error", err)
		}
	})
	for {
		select {
		case w := <-o.watches:
			if _, already := watched[w.thread]; already {
				watched[w.thread] = &w // the running watch may be about to end
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

// viewer is the present state of one watched conversation.
type viewer struct {
	*outbound
	watch

	// Owned by mu.
	mu      sync.Mutex
	run     string // running; "" for none
	message string // being written; "" for none
	text    string // of message

	// Owned by the goroutine of refreshLoop.
	requestedFor string    // message whose preview was requested
	requests     int       // number of requests
	nextRequest  time.Time // earliest time
	lastRun      string    // run of the last refresh
	lastTyping   time.Time
}

// showThread follows a conversation and shows what it writes.
func (o *outbound) showThread(ctx context.Context, w watch) error {
	if w.afterSeq == 0 {
		err := o.host.View(ctx, func(r store.Reader) error {
			rows, err := r.Threads(store.ThreadQuery{IDs: []string{w.thread}})
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
		if ctx.Err() == nil { // otherwise the next connection resumes it
			v.dropPreview(v.lastRun)
		}
	}()
	beside.Go(func() {
		defer recovery.Log(o.host.Log(), "conversation preview")
		if err := catchPanic(func() error { v.refreshLoop(ctx, following.Done()); return nil }); err != nil {
			o.host.Log().Error("preview stopped", "thread", w.thread, "error", err)
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

// onEvent applies an event of the stream. The caller holds mu.
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
	case e.Entry.Kind == entry.KindStarted, e.Entry.Kind == entry.KindResumed:
		v.run, v.message, v.text = e.Entry.Run, "", ""
	case e.Entry.Run != v.run:
	case e.Entry.Kind == entry.KindMessage:
		v.message, v.text = "", ""
	case e.Entry.Kind == entry.KindRescheduled, e.Entry.Kind == entry.KindWaiting,
		e.Entry.Kind == entry.KindCompleted, e.Entry.Kind == entry.KindFailed, e.Entry.Kind == entry.KindCancelled:
		v.run, v.message, v.text = "", "", ""
	}
}

// refreshLoop refreshes the preview periodically until over is closed. It does not cancel a call
// in progress then: a canceled edit might take effect after the final text, or its rate limit
// might be missed.
func (v *viewer) refreshLoop(ctx context.Context, over <-chan struct{}) {
	turn := time.NewTicker(max(v.caps.EditInterval, minRefresh))
	defer turn.Stop()
	for {
		v.mu.Lock()
		run, message, text := v.run, v.message, v.text
		v.mu.Unlock()
		if run != "" {
			err := v.refresh(ctx, run, message, text)
			if err != nil && ctx.Err() == nil && !errors.Is(err, limiter.ErrNotNow) {
				v.host.Log().Debug("could not update preview", "run", run, "error", err)
			}
		}
		select {
		case <-turn.C:
		case <-over:
			return
		}
	}
}

// refresh sends an edit of the preview, a request for one, or a typing indicator.
func (v *viewer) refresh(ctx context.Context, run, message, text string) error {
	v.lastRun = run
	shown := chunk.Head(display.Text(text), v.caps, unfinishedMark)
	if !v.caps.Edits || !v.options.Previews || shown == "" {
		if !v.caps.Typing || time.Since(v.lastTyping) < typingInterval {
			return nil
		}
		v.lastTyping = time.Now()
		return v.limiter.Do(ctx, v.room, v.caps, limiter.PriorityTyping, func(ctx context.Context) error { return v.platform.Typing(ctx, v.room) })
	}
	l := v.previewOf(run)
	if l.messageID == "" {
		if v.requestedFor != message {
			v.requestedFor, v.requests, v.nextRequest = message, 0, time.Time{}
		}
		if v.requests == maxPreviewRequests || time.Now().Before(v.nextRequest) || !v.limiter.IsFree(v.room, limiter.PriorityEdit) {
			return nil
		}
		v.requests++
		v.nextRequest = time.Now().Add(time.Duration(v.requests) * 3 * max(v.caps.EditInterval, minRefresh))
		v.updatePreview(run, func(l *livePreview) { l.text = text })
		return v.host.Answer(ctx, channel.Answer{
			Room: v.room.Words(v.caps.BotID), Key: fmt.Sprintf("preview/%s/%d", message, v.requests), Text: unfinishedMark, Later: true,
			Metadata: previewLabels(v.room, run, message),
		})
	}
	if l.shownText == shown {
		return nil
	}
	err := v.limiter.Do(ctx, v.room, v.caps, limiter.PriorityEdit, func(ctx context.Context) error {
		if v.previewOf(run).messageID != l.messageID {
			return limiter.ErrNotNow // the message was replaced
		}
		return v.platform.Edit(ctx, v.room, l.messageID, chat.Message{Text: shown})
	})
	switch {
	case err == nil:
		v.updatePreview(run, func(now *livePreview) {
			if now.messageID == l.messageID {
				now.shownText = shown
			}
		})
	case isRefused(err), errors.Is(err, chat.ErrGone):
		v.dropPreview(run)
	}
	return err
}

// previewLabels are the labels of a request for a preview.
func previewLabels(p chat.Room, run, message string) map[string]string {
	labels := p.Labels()
	labels[labelPreview], labels[labelPreviewMessage] = run, message
	return labels
}
