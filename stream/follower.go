package stream

import (
	"context"
	"time"

	"mailroom"
	"mailroom/bus"
)

const (
	// depth is how many notices a reader may be behind before it reads the
	// store instead.
	depth = 256
	// pollInterval bounds how long a lost notice goes unnoticed.
	pollInterval = time.Second
)

// follower is one call of Follow; everything in it belongs to that call's
// goroutine.
type follower struct {
	// Set once.
	q    Query
	view Viewer
	bus  *bus.Bus
	emit func(Event) error

	// Where the reader is.
	seq     int64 // entries up to it were emitted, or are not asked for
	key     int64 // of the thread's row; 0 before the first page
	writing writing
	// knowsClaim: writing.claim is what the log says up to seq. Until then
	// the row of the current run must tell.
	knowsClaim bool

	// What is known about the text beyond the reader.
	gotLive   bool        // some came live since the last look: no need to read it
	requested missingText // for what the bus was asked last

	// How it ends.
	judgedAt int64 // the Until condition was judged as of this seq
	done     bool  // it holds
	emitErr  error
}

// requested is a hole in a message's text, from its start at byte sent.
type missingText struct {
	message string
	sent    int
}

func newFollower(s *Streams, q Query, emit func(Event) error) *follower {
	return &follower{q: q, view: s.view, bus: s.bus, emit: emit, seq: q.After.Seq}
}

// follow subscribes before it reads, so that whatever is committed after the
// first page was read is announced.
func (f *follower) follow(ctx context.Context) error {
	sub := f.bus.Subscribe(f.q.Thread, depth)
	defer sub.Close()
	look := time.NewTicker(pollInterval)
	defer look.Stop()

	err := f.catchUp(ctx, true)
	for err == nil && !f.done {
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case n := <-sub.C:
			// What was lost came before some of what is here: looked at
			// later, n could be of a thread made anew under this id.
			if sub.Lost() {
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

// catchUp emits what the store has beyond the reader, and with text also the
// flushed text of the message being written.
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

// moveTo moves the reader to where the page starts.
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

// adoptClaim takes the claim from the current run's row: its run.started went by
// before the reader came, and with it maybe messages of the attempt.
func (f *follower) adoptClaim(c claim) {
	resume := f.writing.resume
	f.writing.beginAttempt(c)
	f.writing.resume, f.writing.unseen = resume, f.seq
}

// emitEntry emits one entry of the log and learns from it who writes.
func (f *follower) emitEntry(e *mailroom.Entry) error {
	w := &f.writing
	c := claim{e.Run, e.Attempt}
	switch e.Kind {
	case mailroom.KindStarted, mailroom.KindResumed:
		w.beginAttempt(c)
		f.knowsClaim = true
	case mailroom.KindMessage:
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
	case mailroom.KindRescheduled, mailroom.KindCompleted, mailroom.KindFailed, mailroom.KindCancelled:
		if e.Run == w.claim.run {
			w.endAttempt()
		}
	}
	f.seq = e.Seq
	return f.emitEvent(Event{Entry: e, Cursor: Cursor{Seq: e.Seq}})
}

// emitDeltas emits new text of the open message, and asks for what is missing
// before the text that is held.
func (f *follower) emitDeltas(fresh []mailroom.Delta) error {
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
