package stream

import (
	"context"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/entry"
)

const (
	// depth is how many notices are buffered for a reader before it must read the store.
	depth = 256
	// pollInterval bounds how long a lost notice can delay a reader.
	pollInterval = time.Second
)

// follower is the state of one call of Follow. It belongs to the goroutine of that call.
//
// Live text is positional (its offset in bytes of the message), so a repeat is harmless. A reader
// that joins in the middle of a message gets the stored text and asks the writer to flush what
// follows it: a copy of the live text in the server would have to be kept in step with the store.
type follower struct {
	// Set once.
	q    Query
	view Viewer
	bus  *bus.Bus
	sub  *bus.Subscription
	emit func(Event) error

	// Position of the reader.
	seq     int64 // entries up to it were emitted or filtered out
	key     int64 // key of the thread's row; 0 before the first page
	writing writing
	// knowsClaim reports that writing.claim is derived from the log up to seq. Otherwise it must be
	// read from the row of the current run.
	knowsClaim bool

	// Text beyond the position.
	gotLive   bool        // live text arrived since the last poll, so flushed text need not be read
	requested missingText // last flush request

	// End of the call.
	judgedAt int64 // seq at which the Until condition was evaluated
	done     bool  // the Until condition holds
	emitErr  error
}

// missingText identifies a gap in a message's text, which starts at byte sent.
type missingText struct {
	message string
	sent    int
}

func newFollower(r *Reader, emit func(Event) error) *follower {
	s, q := r.streams, r.query
	return &follower{q: q, view: s.view, bus: s.bus, sub: r.bus, emit: emit, seq: q.After.Seq}
}

// follow reads the store once the reader is subscribed, so that everything committed later is announced.
func (f *follower) follow(ctx context.Context) error {
	look := time.NewTicker(pollInterval)
	defer look.Stop()

	err := f.catchUp(ctx, true)
	for err == nil && !f.done {
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case n := <-f.sub.C:
			// Handle the loss first: the thread may have been deleted and recreated before n.
			if f.sub.Lost() {
				err = f.catchUp(ctx, true)
			}
			if err == nil && !f.done {
				err = f.handleNotice(ctx, n)
			}
		case <-look.C:
			text := !f.gotLive || len(f.writing.held) > 0
			f.gotLive, f.requested = false, missingText{}
			err = f.catchUp(ctx, text)
		}
	}
	return err
}

// catchUp emits the entries after the position and, with text, the flushed text of the message
// being written.
func (f *follower) catchUp(ctx context.Context, text bool) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p, err := f.readPage(ctx, text)
		if err != nil {
			return err
		}
		if err := f.moveTo(p); err != nil {
			return err
		}
		for i := range p.entries {
			if err := f.emitEntry(&p.entries[i]); err != nil {
				return err
			}
		}
		if !p.last {
			continue
		}
		f.seq = p.thread.LastSeq
		if p.claim != (claim{}) && !f.knowsClaim {
			f.adoptClaim(p.claim)
		}
		f.knowsClaim = true
		f.judgedAt, f.done = f.seq, p.done
		return f.emitDeltas(f.writing.flushed(p.partials))
	}
}

// moveTo moves the reader to the start of the page.
func (f *follower) moveTo(p *page) error {
	first := f.key == 0
	f.key = p.thread.Key
	if p.gap != nil {
		f.writing, f.knowsClaim = writing{}, false
	} else if first && p.after == p.thread.LastSeq {
		f.writing.resume = f.q.After.Bytes
	}
	f.seq = p.after
	if p.gap == nil {
		return nil
	}
	return f.emitEvent(Event{Gap: p.gap, Cursor: Cursor{Seq: f.seq}})
}

// adoptClaim takes the claim from the row of the current run, whose run.started is before the
// reader's position. Messages of the attempt may be before it, too.
func (f *follower) adoptClaim(c claim) {
	resume := f.writing.resume
	f.writing.beginAttempt(c)
	f.writing.resume, f.writing.unseen = resume, f.seq
}

// emitEntry emits one entry and updates the state of the message being written.
func (f *follower) emitEntry(e *mailroom.Entry) error {
	w := &f.writing
	c := claim{e.Run, e.Attempt}
	switch e.Kind {
	case entry.KindStarted, entry.KindResumed:
		w.beginAttempt(c)
		f.knowsClaim = true
	case entry.KindMessage:
		if c != w.claim || e.Run == "" {
			break
		}
		said, err := replyID(e)
		if err != nil {
			return err
		}
		if said != "" {
			w.endMessage(said)
		}
	case entry.KindRescheduled, entry.KindCompleted, entry.KindFailed, entry.KindCancelled:
		if e.Run == w.claim.run {
			w.endAttempt()
		}
	}
	f.seq = e.Seq
	return f.emitEvent(Event{Entry: e, Cursor: Cursor{Seq: e.Seq}})
}

// emitDeltas emits new text of the open message. If held text has a gap before it, it requests a
// flush.
func (f *follower) emitDeltas(fresh []entry.Delta) error {
	for _, d := range fresh {
		at := Cursor{Seq: f.seq, Bytes: d.Offset + len(d.Text)}
		if err := f.emitEvent(Event{Delta: &d, Cursor: at}); err != nil {
			return err
		}
	}
	hole := missingText{f.writing.message, f.writing.sent}
	if len(f.writing.held) > 0 && f.requested != hole {
		f.requested = hole
		f.bus.RequestFlush(f.q.Thread)
	}
	return nil
}

func (f *follower) emitEvent(e Event) error {
	f.emitErr = f.emit(e)
	return f.emitErr
}

// replyID returns the id of the message in e if an agent wrote it, else "".
func replyID(e *mailroom.Entry) (string, error) {
	var said struct {
		ID   string        `json:"id"`
		Role mailroom.Role `json:"role"`
	}
	if err := e.Decode(&said); err != nil || said.Role != mailroom.RoleAssistant {
		return "", err
	}
	return said.ID, nil
}
