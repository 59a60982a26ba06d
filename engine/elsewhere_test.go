package engine_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/bus"
	"mailroom/client"
	"mailroom/engine"
	"mailroom/remote"
	"mailroom/server"
	"mailroom/stream"
)

// The same tests run over a ledger that is a server's: the engine is elsewhere
// then, with a bus of its own, and HTTP between them. It is the real client and
// the real server over pipes, so that time stays virtual.

// secret is the token that workers elsewhere use.
const secret = "a-token-that-nobody-guesses"

// face is what a process shows to engines elsewhere.
type face struct {
	wire   *wire
	keeper *worker // an engine without agents, that judges
	end    context.CancelFunc
	ended  chan error
}

// open starts the server of a process, once.
func (p *process) open() *face {
	if p.face != nil {
		return p.face
	}
	f := &face{wire: &wire{calls: make(chan net.Conn), gone: make(chan struct{})}, ended: make(chan error, 1)}
	ctx, end := context.WithCancel(context.Background())
	f.end = end
	s := server.New(server.Options{
		Ledger: p.ledger, Streams: stream.New(p.ledger, p.bus), Token: secret, Bus: p.bus, Log: p.log(),
		Agents: func() []string { return nil },
	})
	go func() { f.ended <- s.Serve(ctx, f.wire) }()
	f.keeper = p.within(engine.Options{Agents: map[string]engine.Agent{}})
	p.face = f
	return f
}

// close ends the server.
func (f *face) close() error {
	f.keeper.stop()
	f.end()
	return errors.Join(f.keeper.err, <-f.ended)
}

// apart starts an engine elsewhere, that works for the process.
func (p *process) apart(o engine.Options) *worker {
	p.t.Helper()
	f := p.open()
	b := bus.New()
	var agents []string
	for name := range o.Agents {
		agents = append(agents, name)
	}
	lane := &lane{wire: f.wire}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return lane.dial(ctx) }}
	c := client.New("http://localhost", secret, client.WithHTTPClient(&http.Client{Transport: transport}))
	l, err := remote.Dial(context.Background(), c, b, remote.Options{Agents: agents, Log: o.Log})
	if err != nil {
		p.t.Fatal(err)
	}
	w := p.begin(l, b, o)
	p.engines = append(p.engines, w)
	w.lane = lane
	live, quit := context.WithCancel(context.Background())
	var showing sync.WaitGroup
	showing.Go(func() { l.Run(live) })
	w.after = func() {
		quit()
		showing.Wait()
		transport.CloseIdleConnections()
	}
	return w
}

// lane is how one worker elsewhere reaches the server.
type lane struct {
	wire *wire

	// Owned by mu.
	mu   sync.Mutex
	cut  bool
	open []net.Conn
}

func (l *lane) dial(ctx context.Context) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.New("the line is cut")
	}
	c, err := l.wire.dial(ctx)
	if err == nil {
		l.open = append(l.open, c)
	}
	return c, err
}

// sever breaks what is under way, and lets nothing more through until mend.
func (l *lane) sever() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for _, c := range l.open {
		_ = c.Close() // it may be closed already
	}
	l.open = nil
}

func (l *lane) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
}

// apartOnly runs f with engines elsewhere alone.
func apartOnly(t *testing.T, f func(h *house)) { inBubble(t, true, f) }

func TestALineThatIsCutForLessThanALeaseCostsNothing(t *testing.T) {
	apartOnly(t, func(h *house) {
		w := h.serve(func(ctx context.Context, s mailroom.Session) error {
			for _, word := range []string{"one ", "two ", "three ", "four ", "five ", "six"} {
				h.expect(s.Stream(ctx, word))
				if word == "three " {
					h.expect(s.Append(ctx, mailroom.Step{Name: "half"}))
				}
				<-time.After(2 * time.Second)
			}
			return nil
		})
		out := h.send("t", "hello")
		h.wait(3 * time.Second)
		w.lane.sever()
		h.wait(5 * time.Second)
		w.lane.mend()
		h.wait(20 * time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 1 || r.Failures != 0 {
			t.Errorf("it took %d attempts", r.Attempt)
		}
		if diff := cmp.Diff([]string{"hello", "one two three ", "four five six"}, h.texts("t")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAClaimWhoseAnswerIsLostOnTheLineIsAskedForAgain(t *testing.T) {
	apartOnly(t, func(h *house) {
		w := h.serve(say("done"))
		h.wait(time.Second)
		h.line.onWrite(func(c *mailroom.Changes) error {
			for _, e := range slices.Concat(c.Entries...) {
				if e.Kind == mailroom.KindStarted {
					w.lane.sever() // the claim is made, and nobody can be told
				}
			}
			return nil
		}, nil)
		out := h.send("t", "hello")
		h.wait(time.Second)
		h.status(out.Run, mailroom.StatusRunning)
		w.lane.mend()
		h.wait(5 * time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 1 {
			t.Errorf("it took %d attempts", r.Attempt)
		}
	})
}

func TestAnEngineThatIsCutOffStopsBeforeAnotherStarts(t *testing.T) {
	apartOnly(t, func(h *house) {
		var working, most atomic.Int32
		agent := func(ctx context.Context, s mailroom.Session) error {
			most.Store(max(most.Load(), working.Add(1)))
			defer working.Add(-1)
			if s.Run().Attempt > 1 {
				return s.Stream(ctx, "by the second")
			}
			h.expect(s.Stream(ctx, "by the first"))
			<-ctx.Done()
			return context.Cause(ctx)
		}
		first := h.serve(agent)
		out := h.send("t", "hello")
		h.wait(2 * time.Second)
		h.serve(agent)
		first.lane.sever()
		h.wait(30 * time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 2 || r.Failures != 0 {
			t.Errorf("it took %d attempts", r.Attempt)
		}
		first.lane.mend()
		h.wait(5 * time.Second)
		if got := most.Load(); got != 1 {
			t.Errorf("%d agents worked on the run at once", got)
		}
		if diff := cmp.Diff([]string{"hello", "by the first", "by the second"}, h.texts("t")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOrdersReachAnEngineElsewhere(t *testing.T) {
	apartOnly(t, func(h *house) {
		var steered []string
		var heard time.Time
		h.start(engine.Options{Renew: 2 * time.Second, Agents: map[string]engine.Agent{"a": {Agent: mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error {
			for {
				messages, err := s.Steered(ctx)
				h.expect(err)
				for _, m := range messages {
					steered = append(steered, m.Text)
				}
				select {
				case <-ctx.Done():
					heard = time.Now()
					return context.Cause(ctx)
				case <-time.After(100 * time.Millisecond):
				}
			}
		})}}})
		out := h.send("t", "hello")
		h.wait(time.Second)
		h.send("t", "this too", mode(mailroom.ModeSteer))
		h.wait(3 * time.Second)
		asked := time.Now()
		h.cancel(out)
		h.wait(3 * time.Second)
		h.status(out.Run, mailroom.StatusCancelled)
		if took := heard.Sub(asked); took < 0 || took > 2*time.Second {
			t.Errorf("the stop took %s, want the time between two renewals at most", took)
		}
		if diff := cmp.Diff([]string{"this too"}, steered); diff != "" {
			t.Error(diff)
		}
	})
}

// wire is a listener whose connections are pipes.
type wire struct {
	calls chan net.Conn
	once  sync.Once
	gone  chan struct{}
}

func (w *wire) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case w.calls <- there:
		return here, nil
	case <-w.gone:
		return nil, errors.New("nobody listens")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.calls:
		return c, nil
	case <-w.gone:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.gone) })
	return nil
}

func (w *wire) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }
