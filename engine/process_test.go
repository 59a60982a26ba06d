package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/internal/retry"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// process has a ledger with its connection to the store, a bus, and the engines over them, which
// stop and die together.
type process struct {
	t       *testing.T
	line    *line
	bus     *bus.Bus
	ledger  *ledger.Ledger
	engines []*worker
	end     context.CancelFunc
	ended   chan struct{}
	err     error // of the ledger, after its end

	retries       retry.Policy // of the ledger
	workerRetries retry.Policy // of its remote engines

	deadline, longest time.Duration // of the ledger's claims; 0: its default

	remote   bool      // its engines are remote
	endpoint *endpoint // for remote engines; nil: not started
}

func (h *fixture) newProcess() *process {
	p := &process{t: h.t, line: &line{Store: h.store}, bus: bus.New(), ended: make(chan struct{}),
		retries: retry.Delivery()} // short delays
	p.ledger = ledger.New(p.line, ledger.Options{Publish: func(thread string, entries []mailroom.Entry) {
		p.bus.Publish(bus.Notice{Thread: thread, Entries: entries})
	}, Retry: func(string) retry.Policy { return p.retries }, Deadline: func(string) time.Duration {
		return p.deadline
	}, LongestAttempt: func(string) time.Duration { return p.longest }, Log: p.log()})
	ctx, end := context.WithCancel(context.Background())
	p.end = end
	go func() {
		defer close(p.ended)
		p.err = p.ledger.Run(ctx)
	}()
	return p
}

func (p *process) log() *slog.Logger { return slog.New(slog.NewTextHandler(p.t.Output(), nil)) }

// worker is one running engine.
type worker struct {
	*engine.Engine
	quit  context.CancelFunc
	done  chan struct{}
	err   error       // of Run, after its end
	after func()      // stops what belongs to it
	conn  *remoteConn // its connection to the server; nil: local
}

// start runs an engine until the process or the worker is stopped.
func (p *process) start(o engine.Options) *worker {
	if o.Log == nil {
		o.Log = p.log()
	}
	if p.remote {
		return p.startRemote(o)
	}
	w := p.startLocal(o)
	p.engines = append(p.engines, w)
	return w
}

// startLocal runs an engine over the process's own ledger.
func (p *process) startLocal(o engine.Options) *worker {
	o.Blobs = p.ledger.Workers()
	return p.begin(p.ledger.Workers(), p.bus, o)
}

func (p *process) begin(l engine.Ledger, b *bus.Bus, o engine.Options) *worker {
	ctx, quit := context.WithCancel(context.Background())
	w := &worker{Engine: engine.New(l, b, o), quit: quit, done: make(chan struct{}), after: func() {}}
	go func() {
		defer close(w.done)
		w.err = w.Run(ctx)
	}()
	return w
}

// stop shuts the worker down and waits for it.
func (w *worker) stop() {
	w.quit()
	<-w.done
	w.after()
}

// stop shuts the process down. It may be called again.
func (p *process) stop() {
	p.t.Helper()
	for _, w := range p.engines {
		if w.stop(); w.err != nil && !p.line.faults().dead {
			p.t.Errorf("engine: %v", w.err)
		}
	}
	if p.endpoint != nil {
		if err := p.endpoint.close(); err != nil && !p.line.faults().dead {
			p.t.Errorf("server: %v", err)
		}
		p.endpoint = nil
	}
	p.end()
	<-p.ended
	if p.err != nil && !p.line.faults().dead {
		p.t.Errorf("ledger: %v", p.err)
	}
}

// kill cuts the process off from the store, and returns when its engines have ended.
func (p *process) kill() {
	p.t.Helper()
	p.line.die()
	for _, w := range p.engines {
		if <-w.done; !errors.Is(w.err, store.ErrClosed) {
			p.t.Errorf("engine of a dead process: got %v, want %v", w.err, store.ErrClosed)
		}
	}
	p.end()
	<-p.ended
}

// send submits text for agent a and returns the answer.
func (p *process) send(threadID, text string, edit ...func(*thread.Submit)) store.Submitted {
	p.t.Helper()
	in := thread.Submit{Thread: threadID, Agent: "a", Messages: []thread.NewMessage{{Parts: mailroom.Text(text)}}}
	for _, f := range edit {
		f(&in)
	}
	out, err := p.ledger.Submit(context.Background(), in)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

func (p *process) cancel(out store.Submitted) {
	p.t.Helper()
	_, err := p.ledger.Cancel(context.Background(), out.Run, "user")
	if err != nil {
		p.t.Error(err)
	}
}

// line is one process's connection to the store.
type line struct {
	store.Store

	mu  sync.Mutex
	now faults
}

// faults are the injected faults of a line.
type faults struct {
	dead   bool
	frozen chan struct{} // Updates wait until it is closed; nil: no wait

	// before may refuse a Write, after may fail one that was committed, and viewed may fail a View.
	// Each may be nil.
	before, after func(*store.Changes) error
	viewed        func() error
}

func (l *line) faults() faults {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *line) set(f func(*faults)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.now)
}

func (l *line) die() { l.set(func(f *faults) { f.dead = true }) }

// freeze makes Updates wait until thaw.
func (l *line) freeze() { l.set(func(f *faults) { f.frozen = make(chan struct{}) }) }

func (l *line) thaw() {
	l.set(func(f *faults) {
		close(f.frozen)
		f.frozen = nil
	})
}

func (l *line) onWrite(before, after func(*store.Changes) error) {
	l.set(func(f *faults) { f.before, f.after = before, after })
}

func (l *line) onView(viewed func() error) {
	l.set(func(f *faults) { f.viewed = viewed })
}

func (l *line) Update(ctx context.Context, f func(store.Tx) error) error {
	if frozen := l.faults().frozen; frozen != nil {
		<-frozen
	}
	now := l.faults()
	if now.dead {
		return gone()
	}
	var wrote *store.Changes
	err := l.Store.Update(ctx, func(tx store.Tx) error {
		return f(watched{Tx: tx, write: func(c *store.Changes) error {
			wrote = c
			if now.before == nil {
				return nil
			}
			return now.before(c)
		}})
	})
	if err == nil && now.after != nil && wrote != nil {
		return now.after(wrote)
	}
	return err
}

func (l *line) View(ctx context.Context, f func(store.Reader) error) error {
	if l.faults().dead {
		return gone()
	}
	err := l.Store.View(ctx, f)
	if viewed := l.faults().viewed; err == nil && viewed != nil {
		return viewed()
	}
	return err
}

// gone returns the error of a closed store.
func gone() error {
	return mailroom.Errorf(mailroom.CodeUnavailable, "the process was killed: %w", store.ErrClosed)
}

// watched is a transaction that calls hooks around Write.
type watched struct {
	store.Tx
	write func(*store.Changes) error
}

func (w watched) Write(c *store.Changes) error {
	if err := w.write(c); err != nil {
		return err
	}
	return w.Tx.Write(c)
}

// unknown returns the error of a write with an unknown outcome.
func unknown() error {
	return mailroom.Errorf(mailroom.CodeUnavailable, "an injected fault")
}
