package outbound

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"mailroom/channel/chat"
	"mailroom/channel/chat/room"
	"mailroom/internal/recovery"
	"mailroom/store"
	"mailroom/stream"
)

// maxWatches bounds the conversations with live previews at once. Others get only their replies.
const maxWatches = 256

// Labels of the channel's own request to send the preview of a message.
const (
	labelPreview        = "preview" // the run
	labelPreviewMessage = "writes"  // the message
	labelAlert          = "alert"   // label of the requests of a target of alerts, see alert.LabelAlert
)

// follower follows the streams of conversations and carries out what their rooms' views decide.
type follower struct {
	// Set by New.
	conn     *connection
	streams  chat.Follower
	previews bool
	watches  chan watch
}

// watch is a request to show a conversation live in a room.
type watch struct {
	thread string
	room   chat.Room
	after  int64 // entries after it are shown; 0: after the thread's last entry
}

func (f *follower) watch(thread string, at chat.Room, after int64) {
	if f.streams == nil || !f.previews && !f.conn.caps.Typing {
		return
	}
	f.conn.rooms.update(at, func(s *room.State) { s.SetGone(false) })
	select {
	case f.watches <- watch{thread: thread, room: at, after: after}:
	default: // too many requests are queued
	}
}

// run follows the watched conversations, until ctx ends.
func (f *follower) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	watched, ended := map[string]*watch{}, make(chan watch)
	begin := func(w watch) {
		watched[w.thread] = nil
		f.conn.rooms.update(w.room, func(s *room.State) { s.Follow(w.thread, w.after) })
		all.Go(func() {
			defer recovery.Log(f.conn.host.Log(), "conversation preview")
			if err := recovery.Call(f.conn.host.Log(), "conversation preview", func() error {
				return f.show(ctx, w)
			}); err != nil && ctx.Err() == nil {
				f.conn.host.Log().Debug("cannot follow conversation", "thread", w.thread, "error", err)
			}
			select {
			case ended <- w:
			case <-ctx.Done():
			}
		})
	}
	for _, w := range f.conn.rooms.followed() {
		begin(w)
	}
	for {
		select {
		case w := <-f.watches:
			if _, already := watched[w.thread]; already {
				watched[w.thread] = &w // the running watch may be about to end
			} else if len(watched) < maxWatches {
				begin(w)
			}
		case w := <-ended:
			next := watched[w.thread]
			delete(watched, w.thread)
			f.conn.rooms.update(w.room, func(s *room.State) { s.Unfollow(w.thread) })
			if next != nil {
				begin(*next)
			}
		case <-ctx.Done():
			return
		}
	}
}

// show follows a conversation, and shows in the chat what its agent writes.
func (f *follower) show(ctx context.Context, w watch) error {
	after := w.after
	if after == 0 {
		err := f.conn.host.View(ctx, func(r store.Reader) error {
			rows, err := r.Threads(store.ThreadQuery{IDs: []string{w.thread}})
			for _, t := range rows {
				after = t.LastSeq
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	following, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() {
		defer recovery.Log(f.conn.host.Log(), "conversation preview")
		f.refresh(ctx, w, following.Done())
	})
	return f.streams.Follow(following, stream.Query{
		Thread: w.thread, After: stream.Cursor{Seq: after}, Until: stream.UntilWaiting,
	}, func(e stream.Event) error {
		f.conn.rooms.update(w.room, func(s *room.State) { s.Apply(w.thread, e) })
		return nil
	})
}

// refresh ticks a conversation until over is closed. It does not cancel a call in progress then: a
// canceled edit might take effect after the final text, or its rate limit might be missed.
func (f *follower) refresh(ctx context.Context, w watch, over <-chan struct{}) {
	turn := time.NewTicker(room.RefreshInterval(&f.conn.caps))
	defer turn.Stop()
	for {
		if err := f.tick(ctx, w); err != nil && ctx.Err() == nil && !errors.Is(err, chat.ErrNotNow) {
			f.conn.host.Log().Debug("could not update the preview of an unfinished reply; retrying", "thread", w.thread,
				"error", err)
		}
		select {
		case <-turn.C:
		case <-over:
			return
		}
	}
}

// tick does the work that is due for a conversation at this time.
func (f *follower) tick(ctx context.Context, w watch) (err error) {
	var due room.Action
	free := f.conn.limiter.IsFree(w.room, chat.PriorityEdit)
	f.conn.rooms.update(w.room, func(s *room.State) {
		due = s.Tick(w.thread, room.Tick{Now: time.Now(), Caps: &f.conn.caps, Previews: f.previews, Free: free})
	})
	switch due.Kind {
	case room.ActionTyping:
		return f.conn.do(ctx, w.room, chat.PriorityTyping, func(ctx context.Context) error {
			return f.conn.platform.Typing(ctx, w.room)
		})
	case room.ActionPreview:
		return f.conn.request(ctx, w.room, fmt.Sprintf("preview/%s/%d", due.Message, due.Try),
			map[string]string{labelPreview: due.Run, labelPreviewMessage: due.Message})
	case room.ActionEdit:
		return f.edit(ctx, w.room, due)
	}
	return nil
}

// edit edits a preview, unless its message was replaced before the edit's turn.
func (f *follower) edit(ctx context.Context, at chat.Room, a room.Action) error {
	err := f.conn.do(ctx, at, chat.PriorityEdit, func(ctx context.Context) error {
		if barred, err := f.conn.barred(ctx, at); err != nil || barred {
			return cmp.Or(err, chat.ErrNotNow)
		}
		may := false
		if f.conn.rooms.update(at, func(s *room.State) { may = s.MayEdit(a.Run, a.ID) }); !may {
			return chat.ErrNotNow
		}
		return f.conn.platform.Edit(ctx, at, a.ID, chat.Message{Text: a.Text})
	})
	f.conn.rooms.update(at, func(s *room.State) {
		switch {
		case err == nil:
			s.Edited(a.Run, a.ID, a.Text)
		case isRefused(err), errors.Is(err, chat.ErrGone), errors.Is(err, chat.ErrTopicGone):
			s.DropPreview(a.Run)
		}
	})
	return err
}
