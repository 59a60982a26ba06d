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
	// mostWatched bounds the conversations that are shown while they go on, at once.
	// Of others only the replies are sent.
	mostWatched = 256
	// typingEvery is how often typing is shown anew: platforms show it for 5 s or more.
	typingEvery = 4 * time.Second
	// leastPace is the shortest time between two looks at what is to be shown.
	leastPace = 500 * time.Millisecond
	// mostWishes is how often a preview of one message is asked for: other things may
	// go first each time.
	mostWishes = 5
	// unfinished is at the end of a text that is still being written.
	unfinished = " …"
)

// Labels of what the channel says to itself: that a message is to be shown while a run
// writes it.
const (
	labelPreview = "preview" // the run
	labelWrites  = "writes"  // the message
)

// shared is what of a channel's outbound half outlives its connections.
type shared struct {
	gates *gates

	// Owned by mu.
	mu      sync.Mutex
	live    map[string]*live     // by the run of the conversation
	watched map[string]watch     // by thread: what a connection shows, and the next one is to
	asked   map[string]*question // by ticket
}

// live is the text that a run is writing, as it is shown.
type live struct {
	text    string // so far
	preview string // id of the message that shows it, "" for none
	shown   string // there
}

func newShared() *shared {
	return &shared{gates: newGates(), live: map[string]*live{}, watched: map[string]watch{}, asked: map[string]*question{}}
}

// drop forgets the preview of a run: nobody edits it any more.
func (s *shared) drop(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, run)
}

// showing is what is shown of a run; zero for nothing.
func (s *shared) showing(run string) live {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.live[run]; l != nil {
		return *l
	}
	return live{}
}

// change changes what is shown of a run.
func (s *shared) change(run string, f func(l *live)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.live[run]
	if l == nil {
		l = &live{}
		s.live[run] = l
	}
	f(l)
}

// keep remembers what is shown, for the next connection too, until it is over.
func (s *shared) keep(w watch, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if over {
		delete(s.watched, w.thread)
	} else {
		s.watched[w.thread] = w
	}
}

// left is what the connection before has shown, and was not over.
func (s *shared) left() []watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.watched))
}

// watch asks for a conversation to be shown while it goes on.
type watch struct {
	thread string
	at     Room
	after  int64 // seq of what was said; 0: of what was said last
}

// watch shows in a room what a conversation writes from an entry on, until it ends
// or waits. It is best effort: what it says is delivered in any case.
func (o *outbound) watch(thread string, at Room, after int64) {
	if o.options.Follow == nil || !(o.traits.Edits && o.options.Previews) && !o.traits.Typing {
		return
	}
	select {
	case o.watches <- watch{thread: thread, at: at, after: after}:
	default: // too much goes on
	}
}

// tend watches what it is asked to, and what becomes of questions, until ctx ends.
func (o *outbound) tend(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	watched, ended := map[string]*watch{}, make(chan string)
	begin := func(w watch) {
		watched[w.thread] = nil
		o.keep(w, false)
		all.Go(func() {
			defer recovery.Log(o.link.Log(), "what shows a conversation")
			if err := guarded(func() error { return o.show(ctx, w) }); err != nil && ctx.Err() == nil {
				o.link.Log().Debug("a conversation is not shown while it goes on", "thread", w.thread, "error", err)
			}
			select {
			case ended <- w.thread:
			case <-ctx.Done():
			}
		})
	}
	for _, w := range o.left() {
		begin(w)
	}
	all.Go(func() {
		defer recovery.Log(o.link.Log(), "what redraws questions")
		if err := guarded(func() error { o.heed(ctx); return nil }); err != nil {
			o.link.Log().Error("questions are redrawn with the next delivery alone", "error", err)
		}
	})
	for {
		select {
		case w := <-o.watches:
			if _, already := watched[w.thread]; already {
				watched[w.thread] = &w // it may end just now
			} else if len(watched) < mostWatched {
				begin(w)
			}
		case thread := <-ended:
			next := watched[thread]
			delete(watched, thread)
			o.keep(watch{thread: thread}, true)
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
	asked  string    // message for which a preview was asked
	wishes int       // how often
	next   time.Time // when it may be asked again
	last   string    // run that was shown
	typed  time.Time
}

// show follows a conversation and shows what it writes.
func (o *outbound) show(ctx context.Context, w watch) error {
	if w.after == 0 {
		err := o.link.View(ctx, func(r mailroom.Reader) error {
			rows, err := r.Threads(mailroom.ThreadQuery{IDs: []string{w.thread}})
			for _, t := range rows {
				w.after = t.LastSeq
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
			v.drop(v.last)
		}
	}()
	beside.Go(func() {
		defer recovery.Log(o.link.Log(), "what shows a conversation")
		if err := guarded(func() error { v.pace(ctx, following.Done()); return nil }); err != nil {
			o.link.Log().Error("a conversation is not shown any more", "thread", w.thread, "error", err)
		}
	})
	return o.options.Follow.Follow(following, stream.Query{
		Thread: w.thread, After: stream.Cursor{Seq: w.after}, Until: stream.UntilWaiting,
	}, func(e stream.Event) error {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.take(e)
		return nil
	})
}

// take notes what a reader got; within mu.
func (v *viewer) take(e stream.Event) {
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

// pace shows now and then what there is to show, until it is over. A call that is
// under way then is not broken off: what the platform makes of it could come after
// the final text, or what it asks for be lost.
func (v *viewer) pace(ctx context.Context, over <-chan struct{}) {
	turn := time.NewTicker(max(v.traits.EditInterval, leastPace))
	defer turn.Stop()
	for {
		v.mu.Lock()
		run, message, text := v.run, v.message, v.text
		v.mu.Unlock()
		if run != "" {
			err := v.look(ctx, run, message, text)
			if err != nil && ctx.Err() == nil && !errors.Is(err, errLater) {
				v.link.Log().Debug("what is written cannot be shown", "run", run, "error", err)
			}
		}
		select {
		case <-turn.C:
		case <-over:
			return
		}
	}
}

// look shows what a run writes, or that it works.
func (v *viewer) look(ctx context.Context, run, message, text string) error {
	v.last = run
	shown := head(display.Text(text), v.traits, unfinished)
	if !v.traits.Edits || !v.options.Previews || shown == "" {
		if !v.traits.Typing || time.Since(v.typed) < typingEvery {
			return nil
		}
		v.typed = time.Now()
		return v.gates.pass(ctx, v.at, v.traits, typing, func(ctx context.Context) error { return v.platform.Typing(ctx, v.at) })
	}
	l := v.showing(run)
	if l.preview == "" {
		if v.asked != message {
			v.asked, v.wishes, v.next = message, 0, time.Time{}
		}
		if v.wishes == mostWishes || time.Now().Before(v.next) || !v.gates.free(v.at, editing) {
			return nil
		}
		v.wishes++
		v.next = time.Now().Add(time.Duration(v.wishes) * 3 * max(v.traits.EditInterval, leastPace))
		v.change(run, func(l *live) { l.text = text })
		return v.link.Answer(ctx, channel.Answer{
			Room: v.at.words(v.traits.BotID), Key: fmt.Sprintf("preview/%s/%d", message, v.wishes), Text: unfinished, Later: true,
			Metadata: v.at.preview(run, message),
		})
	}
	if l.shown == shown {
		return nil
	}
	err := v.gates.pass(ctx, v.at, v.traits, editing, func(ctx context.Context) error {
		if v.showing(run).preview != l.preview {
			return errLater // it has become something else
		}
		return v.platform.Edit(ctx, v.at, l.preview, Message{Text: shown})
	})
	switch {
	case err == nil:
		v.change(run, func(now *live) {
			if now.preview == l.preview {
				now.shown = shown
			}
		})
	case refused(err), errors.Is(err, ErrGone):
		v.drop(run)
	}
	return err
}

// preview are the labels of the wish for a preview in a room.
func (p Room) preview(run, message string) map[string]string {
	labels := p.labels()
	labels[labelPreview], labels[labelWrites] = run, message
	return labels
}
