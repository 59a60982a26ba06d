package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"mailroom"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/ledger"
)

// process is what lives and dies together: a ledger with its line to the store,
// a bus, and the engines over them.
type process struct {
	t       *testing.T
	line    *line
	bus     *bus.Bus
	ledger  *ledger.Ledger
	engines []*worker
	end     context.CancelFunc
	ended   chan struct{}
	err     error // of the ledger, once ended

	remote bool  // its engines work from elsewhere
	face   *face // for them; nil: none was there yet
}

func (h *house) newProcess() *process {
	p := &process{t: h.t, line: &line{Store: h.store}, bus: bus.New(), ended: make(chan struct{})}
	p.ledger = ledger.New(p.line, ledger.Options{Publish: func(thread string, entries []mailroom.Entry) {
		p.bus.Publish(bus.Notice{Thread: thread, Entries: entries})
	}, Log: p.log()})
	ctx, end := context.WithCancel(context.Background())
	p.end = end
	go func() {
		defer close(p.ended)
		p.err = p.ledger.Run(ctx)
	}()
	return p
}

func (p *process) log() *slog.Logger { return slog.New(slog.NewTextHandler(p.t.Output(), nil)) }

// worker is one engine that runs.
type worker struct {
	*engine.Engine
	quit  context.CancelFunc
	done  chan struct{}
	err   error  // of Run, once done
	after func() // ends what belongs to it
	lane  *lane  // its way to the server; nil: it is inside
}

// start runs an engine until the process ends, or the worker is stopped.
func (p *process) start(o engine.Options) *worker {
	if o.Log == nil {
		o.Log = p.log()
	}
	if p.remote {
		return p.apart(o)
	}
	w := p.within(o)
	p.engines = append(p.engines, w)
	return w
}

// within runs an engine over the process's own ledger.
func (p *process) within(o engine.Options) *worker { return p.begin(p.ledger, p.bus, o) }

func (p *process) begin(l engine.Ledger, b *bus.Bus, o engine.Options) *worker {
	ctx, quit := context.WithCancel(context.Background())
	w := &worker{Engine: engine.New(l, b, o), quit: quit, done: make(chan struct{}), after: func() {}}
	go func() {
		defer close(w.done)
		w.err = w.Run(ctx)
	}()
	return w
}

// stop shuts the worker down in order and waits for it.
func (w *worker) stop() {
	w.quit()
	<-w.done
	w.after()
}

// stop shuts the process down in order. It is repeatable.
func (p *process) stop() {
	p.t.Helper()
	for _, w := range p.engines {
		if w.stop(); w.err != nil && !p.line.faults().dead {
			p.t.Errorf("engine: %v", w.err)
		}
	}
	if p.face != nil {
		if err := p.face.close(); err != nil && !p.line.faults().dead {
			p.t.Errorf("server: %v", err)
		}
		p.face = nil
	}
	p.end()
	<-p.ended
	if p.err != nil && !p.line.faults().dead {
		p.t.Errorf("ledger: %v", p.err)
	}
}

// kill ends the process at once: nothing of it reaches the store any more. It
// returns when its engines have found out and ended too.
func (p *process) kill() {
	p.t.Helper()
	p.line.die()
	for _, w := range p.engines {
		if <-w.done; !errors.Is(w.err, mailroom.ErrStoreClosed) {
			p.t.Errorf("engine of a dead process: got %v, want %v", w.err, mailroom.ErrStoreClosed)
		}
	}
	p.end()
	<-p.ended
}

// send submits text for agent a and returns the answer.
func (p *process) send(thread, text string, edit ...func(*mailroom.Submit)) mailroom.Submitted {
	p.t.Helper()
	in := mailroom.Submit{Thread: thread, Agent: "a", SetAgent: true, Messages: []mailroom.NewMessage{{Parts: mailroom.Text(text)}}}
	for _, f := range edit {
		f(&in)
	}
	out, err := p.ledger.Submit(context.Background(), in)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

func (p *process) cancel(out mailroom.Submitted) {
	p.t.Helper()
	_, err := p.ledger.Cancel(context.Background(), out.Run, "somebody")
	if err != nil {
		p.t.Error(err)
	}
}

// line is the store as one process sees it.
type line struct {
	mailroom.Store

	mu  sync.Mutex
	now faults
}

// faults are what is wrong with a line.
type faults struct {
	dead   bool
	frozen chan struct{} // an Update begins when it is closed; nil: at once

	// before may refuse a Write, after may report one that happened as
	// failed, and viewed a View. Each may be nil.
	before, after func(*mailroom.Changes) error
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

func (l *line) onWrite(before, after func(*mailroom.Changes) error) {
	l.set(func(f *faults) { f.before, f.after = before, after })
}

func (l *line) onView(viewed func() error) {
	l.set(func(f *faults) { f.viewed = viewed })
}

func (l *line) Update(ctx context.Context, f func(mailroom.Tx) error) error {
	if frozen := l.faults().frozen; frozen != nil {
		<-frozen
	}
	now := l.faults()
	if now.dead {
		return gone()
	}
	var wrote *mailroom.Changes
	err := l.Store.Update(ctx, func(tx mailroom.Tx) error {
		return f(watched{Tx: tx, write: func(c *mailroom.Changes) error {
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

func (l *line) View(ctx context.Context, f func(mailroom.Reader) error) error {
	if l.faults().dead {
		return gone()
	}
	err := l.Store.View(ctx, f)
	if viewed := l.faults().viewed; err == nil && viewed != nil {
		return viewed()
	}
	return err
}

// gone is what a store says that was closed.
func gone() error {
	return mailroom.Errorf(mailroom.CodeUnavailable, "a dead process reaches for the store: %w", mailroom.ErrStoreClosed)
}

// watched is a transaction whose Write is looked at first.
type watched struct {
	mailroom.Tx
	write func(*mailroom.Changes) error
}

func (w watched) Write(c *mailroom.Changes) error {
	if err := w.write(c); err != nil {
		return err
	}
	return w.Tx.Write(c)
}

// unknown is what a store says when it does not know whether it wrote.
func unknown() error {
	return mailroom.Errorf(mailroom.CodeUnavailable, "an injected fault")
}
