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
	"mailroom/entry"
	"mailroom/server"
	"mailroom/store"
	"mailroom/stream"
	remote "mailroom/worker"
)

// The same tests run against a remote server's ledger: the engine is remote then, with its own bus,
// and uses HTTP. Client and server are real and connected by pipes, so that time stays virtual.

// secret is the token of remote workers.
const secret = "a-token-for-remote-workers"

// endpoint is the server that a process offers to remote engines.
type endpoint struct {
	wire   *wire
	keeper *worker // an engine without agents, which sweeps
	end    context.CancelFunc
	ended  chan error
}

// open starts the server of a process, once.
func (p *process) open() *endpoint {
	if p.endpoint != nil {
		return p.endpoint
	}
	f := &endpoint{wire: &wire{calls: make(chan net.Conn), gone: make(chan struct{})}, ended: make(chan error, 1)}
	ctx, end := context.WithCancel(context.Background())
	f.end = end
	s := server.New(server.Options{
		Ledger: server.PartsOf(p.ledger), Streams: stream.New(p.ledger, p.bus), Bus: p.bus, Log: p.log(),
		Access: server.Access{Token: secret}, Agents: server.Agents{Names: func() []string { return nil }},
	})
	go func() { f.ended <- s.Serve(ctx, f.wire) }()
	f.keeper = p.startLocal(engine.Options{Agents: map[string]engine.Agent{}})
	p.endpoint = f
	return f
}

// close stops the server.
func (f *endpoint) close() error {
	f.keeper.stop()
	f.end()
	return errors.Join(f.keeper.err, <-f.ended)
}

// startRemote starts a remote engine that works for the process.
func (p *process) startRemote(o engine.Options) *worker {
	p.t.Helper()
	f := p.open()
	b := bus.New()
	var agents []string
	for name := range o.Agents {
		agents = append(agents, name)
	}
	lane := &remoteConn{wire: f.wire}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return lane.dial(ctx)
	}}
	c := client.New("http://localhost", secret, client.WithHTTPClient(&http.Client{Transport: transport}))
	l, err := remote.Dial(context.Background(), c, b,
		remote.LedgerOptions{Agents: agents, Retry: p.workerRetries, Log: o.Log})
	if err != nil {
		p.t.Fatal(err)
	}
	o.Blobs = l
	w := p.begin(l, b, o)
	p.engines = append(p.engines, w)
	w.conn = lane
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

// remoteConn is the connection of a remote worker to the server.
type remoteConn struct {
	wire *wire

	// Owned by mu.
	mu   sync.Mutex
	cut  bool
	open []net.Conn
}

func (l *remoteConn) dial(ctx context.Context) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.New("connection cut")
	}
	c, err := l.wire.dial(ctx)
	if err == nil {
		l.open = append(l.open, c)
	}
	return c, err
}

// sever closes all connections and refuses new ones until mend.
func (l *remoteConn) sever() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for _, c := range l.open {
		_ = c.Close() // it may be closed already
	}
	l.open = nil
}

func (l *remoteConn) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
}

// remoteOnly runs f with remote engines only.
func remoteOnly(t *testing.T, f func(h *fixture)) { inBubble(t, true, f) }

func TestAConnectionLostForLessThanALeaseCostsNothing(t *testing.T) {
	remoteOnly(t, func(h *fixture) {
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
		w.conn.sever()
		h.wait(5 * time.Second)
		w.conn.mend()
		h.wait(20 * time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 1 || r.Failures != 0 {
			t.Errorf("%d attempts", r.Attempt)
		}
		if diff := cmp.Diff([]string{"hello", "one two three ", "four five six"}, h.texts("t")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAClaimWhoseResponseIsLostIsRequestedAgain(t *testing.T) {
	remoteOnly(t, func(h *fixture) {
		w := h.serve(streaming("done"))
		h.wait(time.Second)
		h.line.onWrite(func(c *store.Changes) error {
			for _, e := range slices.Concat(c.Entries...) {
				if e.Kind == entry.KindStarted {
					w.conn.sever() // the claim is made, but its response is lost
				}
			}
			return nil
		}, nil)
		out := h.send("t", "hello")
		h.wait(time.Second)
		h.status(out.Run, mailroom.StatusRunning)
		w.conn.mend()
		h.wait(5 * time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 1 {
			t.Errorf("%d attempts", r.Attempt)
		}
	})
}

func TestAnEngineThatIsCutOffStopsBeforeAnotherStarts(t *testing.T) {
	remoteOnly(t, func(h *fixture) {
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
		first.conn.sever()
		h.wait(30 * time.Second)
		if r := h.status(out.Run, mailroom.StatusCompleted); r.Attempt != 2 || r.Failures != 0 {
			t.Errorf("%d attempts", r.Attempt)
		}
		first.conn.mend()
		h.wait(5 * time.Second)
		if got := most.Load(); got != 1 {
			t.Errorf("%d concurrent agents on the run", got)
		}
		if diff := cmp.Diff([]string{"hello", "by the first", "by the second"}, h.texts("t")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestStopsAndSteersReachARemoteEngine(t *testing.T) {
	remoteOnly(t, func(h *fixture) {
		var steered []string
		var heard time.Time
		h.start(engine.Options{Renew: 2 * time.Second,
			Agents: map[string]engine.Agent{"a": {Agent: mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error {
				for {
					messages, err := s.Steered(ctx)
					if ctx.Err() != nil { // the stop may come during the call
						heard = time.Now()
						return context.Cause(ctx)
					}
					h.expect(err)
					for _, m := range messages {
						steered = append(steered, m.Text)
					}
					select {
					case <-ctx.Done():
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
			t.Errorf("the stop took %s, want at most one renewal interval", took)
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
		return nil, errors.New("connection refused")
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

// TestARemoteWorkerEndsAnAttemptAtTheServersDeadline has a server with a short deadline and one with a long one: the
// worker, which sets none, ends the attempt itself, before the server takes the claim away.
func TestARemoteWorkerEndsAnAttemptAtTheServersDeadline(t *testing.T) {
	for _, deadline := range []time.Duration{10 * time.Second, 3 * time.Hour} {
		for _, of := range []struct{ engine, agent, want time.Duration }{{0, 0, deadline}, {time.Second, 0, time.Second},
			{time.Hour, 5 * time.Second, 5 * time.Second}} {
			remoteOnly(t, func(h *fixture) {
				h.process.deadline = deadline
				causes := make(chan error, 5)
				begin := time.Now()
				o := serving(func(ctx context.Context, s mailroom.Session) error {
					if s.Run().Attempt > 1 {
						return nil
					}
					begin = time.Now()
					<-ctx.Done()
					causes <- context.Cause(ctx)
					return ctx.Err()
				})
				o.Deadline = of.engine
				a := o.Agents["a"]
				a.Deadline = of.agent
				o.Agents["a"] = a
				h.start(o)
				out := h.send("t", "hello")
				cause := <-causes
				if took := time.Since(begin); cause != mailroom.ErrDeadline || took < of.want-time.Second || took > of.want {
					t.Errorf("server %v, worker %v, agent %v: got cause %v after %v, want %v", deadline, of.engine, of.agent, cause,
						took, of.want)
				}
				h.wait(2 * time.Second)
				if r := h.status(out.Run, mailroom.StatusCompleted); r.Failures != 1 || r.Attempt != 2 || r.Lost != 0 {
					t.Errorf("got %d failures, %d attempts, %d lost claims, want 1, 2 and 0", r.Failures, r.Attempt, r.Lost)
				}
			})
		}
	}
}
