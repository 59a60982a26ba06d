package stream

import (
	"context"
	"slices"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/entry"
	"mailroom/store"
)

const (
	// allDepth is how many notices are buffered for a reader of all threads. A reader that is further
	// behind loses live text.
	allDepth = 1024
	// pendingInterval is the first pause before a reader looks again for entries that the store holds
	// back. It doubles up to pollInterval.
	pendingInterval = 5 * time.Millisecond
	// moveInterval is how often a reader that gets no entry gets its position, so that it does not
	// read the same entries of others again when it resumes.
	moveInterval = 10 * time.Second
)

// AllQuery selects what a reader of all threads gets.
type AllQuery struct {
	After  AllCursor
	CanSee func(*mailroom.Thread) bool // the answer for a thread must not change
}

// AllEvent is one event of the stream of all threads: Entry or Delta is set, or Gap, or only the
// Cursor has moved.
type AllEvent struct {
	Entry *mailroom.Entry
	// Delta is live text of Thread. It has no cursor. It may arrive before the entries that precede it
	// in the log, but never after its message's entry.
	Delta  *entry.Delta
	Thread string
	// Gap reports that entries after the last cursor were removed, or that the cursor belongs to another
	// store. The stream continues with the next entry that exists.
	Gap    bool
	Cursor AllCursor // the position after this event
}

// All is one reader of all threads. It has the position from which it reads the store; notices of the
// bus only wake it. One goroutine uses it.
//
// It looks at the store after its position, sends what it may see, and waits for any notice or
// hint, at most a second. Only live text goes out from a notice, unless the entry of its message
// was sent.
type All struct {
	// Set once.
	view   Viewer
	bus    *bus.Subscription
	canSee func(*mailroom.Thread) bool
	emit   func(AllEvent) error

	at        AllCursor
	removed   store.Position // the reader has reported a gap up to this position
	emitted   AllCursor      // last cursor that was emitted
	emittedAt time.Time
	gap       bool // the first event of the stream is a gap
	covered   int  // number of buffered notices that announce only entries which the reader has already looked for
	pause     time.Duration
	emitErr   error

	threads recent[int64, bool]    // visibility by key
	runs    recent[string, string] // thread by run; "" if the thread is hidden
	ended   recent[string, bool]   // messages whose entries were read
}

// OpenAll makes a reader, whose position is after q.After, or now. The caller must close it. Nothing
// that is committed after OpenAll has returned is missed.
func (s *Streams) OpenAll(ctx context.Context, q AllQuery) (_ *All, err error) {
	a := &All{view: s.view, canSee: q.CanSee, bus: s.bus.Subscribe("", allDepth)}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	now := store.AllEntries{None: true}
	err = s.view.View(ctx, func(r store.Reader) error {
		_, err := r.Entries(store.EntryQuery{All: &now})
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	a.at = AllCursor{now.Order, now.End}
	switch {
	case q.After == AllCursor{}:
	case q.After.Order != now.Order || q.After.Position.Compare(now.End) > 0:
		a.gap = true
	default:
		a.at, a.emitted = q.After, q.After
	}
	return a, nil
}

// Close ends the subscription to the bus.
func (a *All) Close() { a.bus.Close() }

// Cursor returns the position of the reader.
func (a *All) Cursor() AllCursor { return a.at }

// Follow calls emit for each event: every entry that the reader may see once, in the order of its
// thread. It returns the cause of ctx when ctx ends, the error of emit when emit fails, and errors of
// the store unchanged. emit may be slow, as in [Streams.Follow].
func (a *All) Follow(ctx context.Context, emit func(AllEvent) error) error {
	a.emit = emit
	err := a.follow(ctx)
	if ctx.Err() != nil && a.emitErr == nil {
		return context.Cause(ctx)
	}
	return err
}

func (a *All) follow(ctx context.Context) error {
	look := time.NewTimer(pollInterval)
	defer look.Stop()
	if a.gap || a.emitted != a.at { // a new reader can resume before its first entry
		if err := a.send(AllEvent{Gap: a.gap}); err != nil {
			return err
		}
	}
	for due := true; ; {
		if due {
			a.covered = len(a.bus.C)
			pending, err := a.catchUp(ctx)
			if err != nil {
				return err
			}
			look.Reset(a.nextLook(pending))
		}
		var err error
		select {
		case <-ctx.Done():
			return nil
		case n := <-a.bus.C:
			due, err = a.handleNotice(ctx, n)
		case <-look.C:
			due = true
			if a.emitted != a.at && time.Since(a.emittedAt) >= moveInterval {
				err = a.send(AllEvent{})
			}
		}
		if err != nil {
			return err
		}
	}
}

// nextLook returns the time until the next look at the store.
func (a *All) nextLook(pending bool) time.Duration {
	if !pending {
		a.pause = 0
		return pollInterval
	}
	a.pause = min(max(2*a.pause, pendingInterval), pollInterval)
	return a.pause
}

// handleNotice sends live text, and reports whether the store may have new entries.
func (a *All) handleNotice(ctx context.Context, n *bus.Notice) (due bool, err error) {
	due = n.Delta == nil && n.Flushed == nil
	if a.covered > 0 {
		a.covered--
		due = false
	}
	due = a.bus.Lost() || due
	if n.Delta == nil {
		return due, nil
	}
	if _, ended := a.ended.get(n.Delta.Message); ended {
		return due, nil
	}
	thread, err := a.visibleThread(ctx, n.Delta.Run)
	if err != nil || thread == "" || thread != n.Thread {
		return due, err
	}
	return due, a.send(AllEvent{Delta: n.Delta, Thread: thread})
}

// visibleThread returns the thread of a run, or "" if the reader may not see the thread. It keeps the answers, because
// a run stays in its thread and a thread keeps its owner.
func (a *All) visibleThread(ctx context.Context, run string) (string, error) {
	if thread, ok := a.runs.get(run); ok {
		return thread, nil
	}
	thread := ""
	err := a.view.View(ctx, func(r store.Reader) error {
		thread = ""
		row, err := (&runReader{Reader: r}).findRun(run)
		if err != nil || row == nil {
			return err
		}
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{row.Thread}})
		if err == nil && len(rows) == 1 && a.canSee(rows[0]) {
			thread = row.Thread
		}
		return err
	})
	if err == nil {
		a.runs.put(run, thread)
	}
	return thread, err
}

// catchUp emits the entries after the position. pending reports that the store holds some back.
func (a *All) catchUp(ctx context.Context) (pending bool, err error) {
	for {
		if ctx.Err() != nil {
			return false, nil
		}
		p, err := a.readPage(ctx)
		if err != nil {
			return false, err
		}
		if err := a.checkGap(&p.AllEntries); err != nil {
			return false, err
		}
		for i := range p.entries {
			if err := a.emitEntry(&p.entries[i], p.Positions[i]); err != nil {
				return false, err
			}
		}
		if p.last {
			if p.End.Compare(a.at.Position) > 0 {
				a.at.Position = p.End
			}
			return p.Pending, nil
		}
	}
}

// checkGap emits a gap if entries after the position were removed, or if the store has another order.
func (a *All) checkGap(p *store.AllEntries) error {
	switch {
	case p.Order != a.at.Order:
		a.at, a.removed = AllCursor{p.Order, p.End}, store.Position{}
	case p.Removed.Compare(a.at.Position) > 0 && p.Removed.Compare(a.removed) > 0:
		a.removed = p.Removed
	default:
		return nil
	}
	return a.send(AllEvent{Gap: true})
}

// allPage is the result of one view.
type allPage struct {
	store.AllEntries
	entries []mailroom.Entry
	last    bool // this snapshot has no later entry
}

// readPage reads the entries after the position, and which of their threads are visible.
func (a *All) readPage(ctx context.Context) (p *allPage, err error) {
	err = a.view.View(ctx, func(r store.Reader) error {
		p = &allPage{AllEntries: store.AllEntries{After: a.at.Position}}
		found, err := r.Entries(store.EntryQuery{All: &p.AllEntries, Limit: pageSize, Bytes: pageBytes})
		if err != nil {
			return err
		}
		if p.Order != a.at.Order {
			p.last = true
			return nil
		}
		some, cut := entry.First(found, pageBytes)
		p.entries, p.last = some, len(found) < pageSize && !cut
		if len(some) < len(found) {
			p.entries = slices.Clone(some) // release the memory of the last entry
		}
		return a.findThreads(r, p)
	})
	return p, err
}

// findThreads learns which threads of a page are visible. An id may name another thread than the
// entry's, which has been deleted.
func (a *All) findThreads(r store.Reader, p *allPage) error {
	unknown := map[int64]string{}
	var ids []string
	for i := range p.entries {
		key := p.Positions[i].Thread
		if _, known := a.threads.get(key); !known && unknown[key] == "" {
			unknown[key] = p.entries[i].Thread
			ids = append(ids, p.entries[i].Thread)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := r.Threads(store.ThreadQuery{IDs: ids})
	if err != nil {
		return err
	}
	visible := map[int64]bool{}
	for _, row := range rows {
		visible[row.Key] = a.canSee(row)
	}
	for key := range unknown {
		a.threads.put(key, visible[key])
	}
	return nil
}

// emitEntry moves the position to an entry and emits it if it is visible.
func (a *All) emitEntry(e *mailroom.Entry, at store.Position) error {
	a.at.Position = at
	visible, _ := a.threads.get(at.Thread)
	switch {
	case e.Kind == entry.KindStarted || e.Kind == entry.KindResumed:
		thread := ""
		if visible {
			thread = e.Thread
		}
		a.runs.put(e.Run, thread)
	case visible && e.Kind == entry.KindMessage && e.Attempt > 0:
		said, err := replyID(e)
		if err != nil {
			return err
		}
		a.ended.put(said, true)
	}
	if !visible {
		return nil
	}
	return a.send(AllEvent{Entry: e})
}

// send emits an event with the reader's position.
func (a *All) send(e AllEvent) error {
	if e.Delta == nil {
		e.Cursor, a.emitted, a.emittedAt = a.at, a.at, time.Now()
	}
	a.emitErr = a.emit(e)
	return a.emitErr
}
