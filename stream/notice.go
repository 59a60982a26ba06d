package stream

import (
	"context"
	"strings"

	"mailroom"
	"mailroom/bus"
	"mailroom/entry"
	"mailroom/store"
)

// earlierPage is the page size of readEarlier.
const earlierPage = 32

// handleNotice handles a notice from the bus.
func (f *follower) handleNotice(ctx context.Context, n *bus.Notice) error {
	if err := f.handleEntries(ctx, n.Entries); err != nil || f.done {
		return err
	}
	if f.q.NoText {
		return nil
	}
	if n.Delta != nil && n.Delta.Text != "" {
		if err := f.handleDelta(ctx, *n.Delta); err != nil || f.done {
			return err
		}
	}
	if n.Flushed != nil {
		return f.handleFlushed(ctx, n.Flushed)
	}
	return nil
}

// handleEntries emits committed entries if they follow the position, and reads the store otherwise.
func (f *follower) handleEntries(ctx context.Context, entries []mailroom.Entry) error {
	judge := false
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Seq == 1:
			// A late notice, or a new thread under this id: catchUp compares the key.
			if err := f.catchUp(ctx, true); err != nil || f.done {
				return err
			}
			continue
		case e.Seq <= f.seq:
			continue
		case e.Seq > f.seq+1:
			return f.catchUp(ctx, true) // includes the other entries
		case f.q.Run != "" && e.Run != f.q.Run:
			f.seq = e.Seq
			continue
		}
		if err := f.emitEntry(e); err != nil {
			return err
		}
		if f.q.Until == UntilForever {
			continue
		}
		if _, ended := entry.EndStatus(e); ended && f.q.Run != "" {
			f.done = true // the entry ends the run
			return nil
		}
		judge = judge || strings.HasPrefix(e.Kind, "run.")
	}
	if judge {
		return f.catchUp(ctx, false)
	}
	return nil
}

// handleDelta handles live text. For text of an unknown message it reads the store, which
// distinguishes a new message from an old one.
func (f *follower) handleDelta(ctx context.Context, d entry.Delta) error {
	c := claim{d.Run, d.Attempt}
	if f.q.Run != "" && f.q.Run != d.Run || f.writing.stale(c, d.Message) {
		return nil
	}
	if !d.IsText() { // no entry stores this delta, so it has no place among the bytes of the message
		return f.emitEvent(Event{Delta: &d, Cursor: Cursor{Seq: f.seq, Bytes: f.writing.sent}})
	}
	f.gotLive = true
	if d.Offset == 0 && f.writing.betweenMessages(c) {
		f.writing.openMessage(d.Message)
	}
	if !f.writing.isOpen(c, d.Message) {
		if err := f.catchUp(ctx, true); err != nil || f.done {
			return err
		}
		if err := f.openMessage(ctx, c, d.Message); err != nil {
			return err
		}
		if !f.writing.isOpen(c, d.Message) {
			return nil
		}
	}
	return f.emitDeltas(f.writing.addText(d))
}

// openMessage opens a message that the reader has just learned of, unless the store shows that it
// has ended.
func (f *follower) openMessage(ctx context.Context, c claim, message string) error {
	w := &f.writing
	if c != w.claim {
		if !w.stale(c, message) {
			w.late = c // the store has another claim, so c has ended
		}
		return nil
	}
	if w.message != "" || w.ended[message] {
		return nil // a run writes one message at a time
	}
	if w.unseen > 0 {
		if err := f.readEarlier(ctx); err != nil {
			return err
		}
		if w.ended[message] {
			return nil
		}
	}
	w.openMessage(message)
	return nil
}

// readEarlier reads which messages the attempt wrote before the reader's position, so that a late
// delta of one of them is not taken for a new message.
func (f *follower) readEarlier(ctx context.Context) error {
	w := &f.writing
	for before := w.unseen + 1; before > 1; {
		var found []mailroom.Entry
		err := f.view.View(ctx, func(r store.Reader) (err error) {
			found, err = r.Entries(store.EntryQuery{
				Thread: f.q.Thread, Run: w.claim.run, Kinds: []string{entry.KindMessage},
				Before: before, Backward: true, Limit: earlierPage,
			})
			return err
		})
		if err != nil {
			return err
		}
		done := len(found) < earlierPage
		for _, e := range found {
			said, err := replyID(&e)
			if err != nil {
				return err
			}
			if said != "" && e.Attempt == w.claim.attempt {
				w.ended[said] = true
			}
			done = done || said != "" && e.Attempt < w.claim.attempt
			before = e.Seq
		}
		if done {
			break
		}
	}
	w.unseen = 0
	return nil
}

// handleFlushed reads flushed text that the reader does not have.
func (f *follower) handleFlushed(ctx context.Context, n *bus.Flushed) error {
	c := claim{n.Run, n.Attempt}
	w := &f.writing
	if f.q.Run != "" && f.q.Run != n.Run || w.stale(c, n.Message) || w.isOpen(c, n.Message) && n.Upto <= w.sent {
		return nil
	}
	if err := f.catchUp(ctx, true); err != nil || f.done {
		return err
	}
	if c != w.claim && !w.stale(c, n.Message) {
		w.late = c
	}
	return nil
}
