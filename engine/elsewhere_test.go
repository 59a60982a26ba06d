package engine_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"

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
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return f.wire.dial(ctx) }}
	c := client.New("http://localhost", secret, client.WithHTTPClient(&http.Client{Transport: transport}))
	l, err := remote.Dial(context.Background(), c, b, remote.Options{Agents: agents, Log: o.Log})
	if err != nil {
		p.t.Fatal(err)
	}
	w := p.begin(l, b, o)
	p.engines = append(p.engines, w)
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
