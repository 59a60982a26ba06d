package bus

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/recovery"
)

const (
	// announceInterval is how often a server announces itself and the threads that its readers
	// follow; heardFor is how long an announcement is valid.
	announceInterval = 10 * time.Second
	heardFor         = 3 * announceInterval
	// liveInterval is how often live text is flushed for readers at other servers.
	liveInterval = 200 * time.Millisecond
	// maxFollowed bounds the threads that readers at other servers follow. Readers of more threads
	// look at the store.
	maxFollowed = 100_000
)

// Relay connects a bus with the buses of the other servers on its store. It sends a hint only if
// another server runs, and about entries and text of a thread only if another server has a reader
// of it, or the worker of its run.
//
// For a reader of all threads it sends one hint without a name for all entries of some
// milliseconds. The receiver treats a hint about a thread like a lost notice: followers read the
// store, and the session of a run reads the row of the run. So stops, steers, entries and text need
// one kind of hint, and a hint that is late, doubled or lost costs time only.
type Relay struct {
	bus   *Bus
	wire  Wire
	nudge func(agent string)
	log   *slog.Logger

	mu       sync.Mutex
	heard    time.Time            // last announcement of another server
	followed map[string]time.Time // last announcement of a reader at another server, by thread; "": all threads
	live     map[string]struct{}  // followed threads with text that is not flushed
}

// NewRelay connects b and w until the process ends. nudge is called when a run of an agent may be
// due, or of any agent with "".
func NewRelay(b *Bus, w Wire, nudge func(agent string), log *slog.Logger) *Relay {
	r := &Relay{bus: b, wire: w, nudge: nudge, log: log, followed: map[string]time.Time{}, live: map[string]struct{}{}}
	b.relay.Store(r)
	return r
}

// Due informs the other servers that a run of the agent is due.
func (r *Relay) Due(agent string) {
	r.mu.Lock()
	alone := r.alone()
	r.mu.Unlock()
	if !alone {
		r.wire.Send(Hint{HintDue, agent})
	}
}

// Run passes hints on until ctx ends.
func (r *Relay) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		defer recovery.Error(r.log, "wire", &err)
		return r.wire.Run(ctx, r.receive)
	})
	group.Go(func() (err error) {
		defer recovery.Error(r.log, "announcements", &err)
		r.tick(ctx)
		return nil
	})
	return group.Wait()
}

func (r *Relay) tick(ctx context.Context) {
	announce := time.NewTicker(announceInterval)
	defer announce.Stop()
	live := time.NewTicker(liveInterval)
	defer live.Stop()
	for {
		select {
		case <-announce.C:
			r.forget()
			r.announce()
		case <-live.C:
			r.flush()
		case <-ctx.Done():
			return
		}
	}
}

// announce informs the other servers that this one runs and which threads its readers follow.
func (r *Relay) announce() {
	hints := []Hint{{Kind: HintHere}}
	r.mu.Lock()
	alone := r.alone()
	r.mu.Unlock()
	if !alone {
		for _, thread := range r.bus.readThreads() {
			hints = append(hints, follow(thread))
		}
	}
	r.wire.Send(hints...)
}

// follow returns the announcement of a reader of a thread, or of all threads with "".
func follow(thread string) Hint {
	if thread == "" {
		return Hint{Kind: HintFollowAll}
	}
	return Hint{HintFollow, thread}
}

// forget drops the announcements that are no longer valid.
func (r *Relay) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for thread, at := range r.followed {
		if time.Since(at) > heardFor {
			delete(r.followed, thread)
		}
	}
}

// flush asks the workers to flush live text that readers at other servers wait for.
func (r *Relay) flush() {
	r.mu.Lock()
	var live map[string]struct{}
	if len(r.live) > 0 {
		live, r.live = r.live, map[string]struct{}{}
	}
	r.mu.Unlock()
	for thread := range live {
		r.bus.RequestFlush(thread)
	}
}

// alone reports whether this server knows of no other running server on its store. The caller holds mu.
func (r *Relay) alone() bool { return r.heard.IsZero() || time.Since(r.heard) > heardFor }

// receive handles a hint of another server.
func (r *Relay) receive(h Hint) {
	switch h.Kind {
	case HintThread:
		r.bus.refresh(h.Name)
	case HintEntries:
		r.bus.refresh("")
	case HintDue:
		r.nudge(h.Name)
	case HintHere, HintFollow, HintFollowAll:
		r.hear(h)
	case HintLook:
		r.bus.refreshAll()
		r.nudge("")
		r.announce() // the sender may not know what this server follows
	}
}

// hear records an announcement. The first one of a server is answered at once.
func (r *Relay) hear(h Hint) {
	r.mu.Lock()
	first := r.alone()
	r.heard = time.Now()
	if _, known := r.followed[h.Name]; h.Kind != HintHere && (known || len(r.followed) < maxFollowed) {
		r.followed[h.Name] = r.heard
	}
	r.mu.Unlock()
	if first {
		r.announce()
	}
}

// onRead announces a reader of a thread, or of all threads with "".
func (r *Relay) onRead(thread string) {
	r.mu.Lock()
	alone := r.alone()
	r.mu.Unlock()
	if !alone {
		r.wire.Send(follow(thread))
	}
}

// onNotice sends a hint for a notice of this server if another one waits for it. local reports
// whether the worker of the thread's run is here.
func (r *Relay) onNotice(n Notice, local bool) {
	r.mu.Lock()
	if r.alone() {
		r.mu.Unlock()
		return
	}
	followed, all := r.isFollowed(n.Thread), r.isFollowed("")
	// it is not stored, so no other server can read it
	if followed && n.Delta != nil && n.Delta.IsText() {
		r.live[n.Thread] = struct{}{}
	}
	r.mu.Unlock()
	if followed && (len(n.Entries) > 0 || n.Flushed != nil) || !local && forWorker(n.Entries) {
		r.wire.Send(Hint{HintThread, n.Thread})
	}
	if all && len(n.Entries) > 0 {
		r.wire.Send(Hint{Kind: HintEntries})
	}
}

// isFollowed reports whether another server has a reader of the thread, or of all threads with "". The
// caller holds mu.
func (r *Relay) isFollowed(thread string) bool {
	at, ok := r.followed[thread]
	return ok && time.Since(at) <= heardFor
}

// forWorker reports whether entries of one commit stop or steer a run.
func forWorker(entries []mailroom.Entry) bool {
	queued := map[string]bool{}
	for _, e := range entries {
		if e.Kind == entry.KindQueued {
			queued[e.Run] = true
		}
	}
	for _, e := range entries {
		switch {
		case e.Kind == entry.KindStop:
			return true
		case e.Kind == entry.KindMessage && e.Run != "" && e.Attempt == 0 && !queued[e.Run]:
			return true
		}
	}
	return false
}

// refresh makes the subscriptions to the thread read the store, as after a lost notice; with "" the
// subscriptions of readers of all threads.
func (b *Bus) refresh(thread string) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for s := range b.threads[thread] {
		s.refresh(thread)
	}
}

// refreshAll is refresh for every thread.
func (b *Bus) refreshAll() {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for thread, all := range b.threads {
		for s := range all {
			s.refresh(thread)
		}
	}
}

func (s *Subscription) refresh(thread string) {
	if thread == "" && s.entries {
		return // a subscription to the entries of all threads has no position to read from
	}
	s.lost.Store(true)
	select {
	case s.c <- &Notice{Thread: thread}:
	default: // the reader finds the loss with the notices before
	}
}

// readThreads returns the threads with readers, "" for readers of all threads. A worker subscribes
// to entries only and does not count as a reader.
func (b *Bus) readThreads() (threads []string) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for thread, all := range b.threads {
		for s := range all {
			if !s.entries {
				threads = append(threads, thread)
				break
			}
		}
	}
	return threads
}
