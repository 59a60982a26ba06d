package stream

import (
	"context"
	"strings"

	"mailroom"
	"mailroom/bus"
)

// earlierPage is how many messages are read at a time to learn which messages
// an attempt had written before the reader came.
const earlierPage = 32

// notice takes a hint from the bus.
func (f *follower) notice(ctx context.Context, n bus.Notice) error {
	if err := f.committed(ctx, n.Entries); err != nil || f.enough {
		return err
	}
	if n.Delta != nil && n.Delta.Text != "" {
		if err := f.live(ctx, *n.Delta); err != nil || f.enough {
			return err
		}
	}
	if n.Flushed != nil {
		return f.flushed(ctx, n.Flushed)
	}
	return nil
}

// committed takes entries that were just committed, if nothing before them is
// missing.
func (f *follower) committed(ctx context.Context, entries []mailroom.Entry) error {
	judge := false
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Seq == 1:
			// The log begins, and the reader is beyond: a late notice, or
			// another thread under this id. The key of its row tells.
			if err := f.catchUp(ctx, true); err != nil || f.enough {
				return err
			}
			continue
		case e.Seq <= f.seq:
			continue
		case e.Seq > f.seq+1:
			return f.catchUp(ctx, true) // which includes the rest of them
		case f.q.Run != "" && e.Run != f.q.Run:
			f.seq = e.Seq
			continue
		}
		if err := f.entry(e); err != nil {
			return err
		}
		if f.q.Until == UntilForever {
			continue
		}
		if _, ended := Ends(e); ended && f.q.Run != "" {
			f.enough = true // the entry itself says so
			return nil
		}
		judge = judge || strings.HasPrefix(e.Kind, "run.")
	}
	if judge {
		return f.catchUp(ctx, false)
	}
	return nil
}

// live takes live text. Text of a message that is neither the open one nor
// plainly the next sends the reader to the store: that alone tells a new message
// from an old one.
func (f *follower) live(ctx context.Context, d mailroom.Delta) error {
	c := claim{d.Run, d.Attempt}
	if f.q.Run != "" && f.q.Run != d.Run || f.writing.stale(c, d.Message) {
		return nil
	}
	f.fresh = true
	if d.Offset == 0 && f.writing.between(c) {
		f.writing.open(d.Message)
	}
	if !f.writing.at(c, d.Message) {
		if err := f.catchUp(ctx, true); err != nil || f.enough {
			return err
		}
		if err := f.admit(ctx, c, d.Message); err != nil {
			return err
		}
		if !f.writing.at(c, d.Message) {
			return nil
		}
	}
	return f.deltas(f.writing.take(d))
}

// admit opens message, which the reader just heard of, unless what was read
// from the store since says that it is over.
func (f *follower) admit(ctx context.Context, c claim, message string) error {
	w := &f.writing
	if c != w.claim {
		if !w.stale(c, message) {
			w.late = c // the store does not know it as current, so it never will again
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
	w.open(message)
	return nil
}

// readEarlier learns the messages that the attempt wrote before the reader
// came, so that a late delta of one of them is not taken for a new message.
func (f *follower) readEarlier(ctx context.Context) error {
	w := &f.writing
	for before := w.unseen + 1; before > 1; {
		var found []mailroom.Entry
		err := f.view.View(ctx, func(r mailroom.Reader) (err error) {
			found, err = r.Entries(mailroom.EntryQuery{
				Thread: f.q.Thread, Run: w.claim.run, Kinds: []string{mailroom.KindMessage},
				Before: before, Backward: true, Limit: earlierPage,
			})
			return err
		})
		if err != nil {
			return err
		}
		done := len(found) < earlierPage
		for _, e := range found {
			said, err := reply(&e)
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

// flushed looks for text in the store that the reader does not have.
func (f *follower) flushed(ctx context.Context, n *bus.Flushed) error {
	c := claim{n.Run, n.Attempt}
	w := &f.writing
	if f.q.Run != "" && f.q.Run != n.Run || w.stale(c, n.Message) || w.at(c, n.Message) && n.Upto <= w.sent {
		return nil
	}
	if err := f.catchUp(ctx, true); err != nil || f.enough {
		return err
	}
	if c != w.claim && !w.stale(c, n.Message) {
		w.late = c
	}
	return nil
}
