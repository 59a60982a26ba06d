package channeltest

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/adapter"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/stream"
)

// Server is a server with one channel, named "c". Its store survives restarts.
type Server struct {
	// Set before Start.
	Agent   mailroom.AgentFunc // echoes each message by default
	Options chat.Options       // Start sets Agent, Follow and Commits
	Policy  channel.ReconnectPolicy

	t      *testing.T
	p      *Platform
	store  store.Store
	log    *LogBuffer
	proxy  *Proxy                              // nil: connections use no proxy
	hold   chan struct{}                       // delays the echo until closed; nil: no delay
	wrap   func(channel.Ledger) channel.Ledger // the channel's ledger; may be nil
	posted map[string]bool                     // ids of posted messages
	onSend func(m chat.Message)                // is called before each message of the channel; may be nil

	// Set by Start.
	runner   *channel.Runner
	ledger   *ledger.Ledger
	dial     channel.Connect
	shutdown func() // stops the server; nil while it is stopped

	// Owned by mu.
	mu   sync.Mutex
	live int // adapters between the call of Connect and the return of Close
	caps chat.Capabilities
}

// NewServer returns a server that has not been started. Ann may use the bot at home.
func NewServer(t *testing.T, p *Platform) *Server {
	t.Helper()
	s := &Server{t: t, p: p, store: memory.New(), log: &LogBuffer{}, Policy: p.Reconnect, posted: map[string]bool{}}
	if s.Policy.CloseTimeout == 0 {
		s.Policy.CloseTimeout = 3 * time.Second
	}
	if s.Policy.ParkAfter == 0 {
		s.Policy.ParkAfter = -1
	}
	if p.Dialer != nil {
		s.Options.Access = chat.AccessPolicy{Users: []string{p.People.ID(Ann)}}
		if p.Home != "" {
			s.Options.Access = chat.AccessPolicy{Chats: []string{p.People.Room(p.Home).Chat}, PerUser: true,
				AllGroupMessages: true}
		}
	}
	if s.connects() {
		s.Policy.IdleTimeout = time.Minute // a slow machine must not look silent
	}
	s.Policy.ConnectTimeout = time.Minute
	t.Cleanup(func() {
		if s.shutdown != nil {
			s.shutdown()
		}
		checkSecrets(t, p, s.log.String())
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	return s
}

// noticeSilence gives the channel the short timeouts of the platform, for a case about silence. It is called before
// Start.
func (s *Server) noticeSilence() {
	s.Policy.IdleTimeout, s.Policy.ConnectTimeout = s.p.Reconnect.IdleTimeout, s.p.Reconnect.ConnectTimeout
}

// checkSecrets checks that a log has no secret of the platform.
func checkSecrets(t *testing.T, p *Platform, log string) {
	t.Helper()
	for _, secret := range p.Secrets {
		if strings.Contains(log, secret) {
			t.Errorf("the secret %q is in a log or an error", secret)
		}
	}
}

// Start runs the server until Stop.
func (s *Server) Start() *Server {
	s.t.Helper()
	log := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	l, b := NewLedger(s.store, ledger.Options{})
	s.ledger = l
	if s.dial = s.p.Connect; s.p.Dialer != nil {
		o := s.Options
		o.Agent, o.Follow, o.Commits = Agent, stream.New(l, b), b
		s.dial = adapter.Connect(o, s.keepCapabilities(s.p.Dialer()))
	}
	wrapped := channel.Ledger(l)
	if s.wrap != nil {
		wrapped = s.wrap(l)
	}
	s.runner = channel.New(channel.Options{Name: "c", Kind: s.p.Kind, Connect: s.connect, Reconnect: s.Policy,
		Ledger: wrapped, Log: log})
	agent := s.Agent
	if agent == nil {
		agent = s.echo
	}
	e := engine.New(l.Workers(), b, engine.Options{
		Agents: map[string]engine.Agent{Agent: {Agent: agent},
			channel.AgentName("c"): {Agent: s.runner.Agent(), Ready: s.runner.Connected}},
		Local: true, ShutdownGrace: 2 * time.Second, Log: log,
	})
	_, s.shutdown = StartServer(s.t, l, e, s.runner)
	return s
}

// echo is the default agent.
func (s *Server) echo(ctx context.Context, run mailroom.Session) error {
	input, err := run.Input(ctx)
	if err != nil {
		return err
	}
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return run.Stream(ctx, input[len(input)-1].Text)
}

// Stop stops the server and checks that every adapter has closed.
func (s *Server) Stop() {
	s.t.Helper()
	s.shutdown()
	s.shutdown = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live != 0 || strings.Contains(s.log.String(), "did not stop in time") {
		s.t.Errorf("%d adapters have not closed", s.live)
	}
	if strings.Contains(s.log.String(), "adapter close failed") || strings.Contains(s.log.String(), "panic") {
		s.t.Error("the log reports a failed close or a panic")
	}
}

// State returns the channel's state.
func (s *Server) State() channel.State { return s.runner.State() }

// Resume retries the channel now.
func (s *Server) Resume() { s.runner.Resume() }

// Capabilities returns the capabilities of the latest connection of a chat platform.
func (s *Server) Capabilities() chat.Capabilities {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.caps
}

func (s *Server) keepCapabilities(dial chat.Dialer) chat.Dialer {
	return func(ctx context.Context, h *channel.Host) (chat.Platform, chat.Capabilities, error) {
		p, caps, err := dial(ctx, h)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.caps = caps
		if err == nil && s.onSend != nil {
			p = watchedPlatform{p, s.onSend}
		}
		return p, caps, err
	}
}

// watchedPlatform tells of each message before it is sent.
type watchedPlatform struct {
	chat.Platform
	onSend func(m chat.Message)
}

func (p watchedPlatform) Send(ctx context.Context, to chat.Room, m chat.Message, key string) (string, error) {
	p.onSend(m)
	return p.Platform.Send(ctx, to, m, key)
}

// AwaitSettled waits until no run is queued, running or waiting.
func (s *Server) AwaitSettled() {
	s.t.Helper()
	s.Await("all runs and deliveries have finished", func() bool {
		return s.runs(store.RunQuery{Statuses: append([]mailroom.Status{mailroom.StatusWaiting}, unfinished...)}) == 0
	})
}

// unfinished are the statuses of runs that do not wait for people.
var unfinished = []mailroom.Status{mailroom.StatusQueued, mailroom.StatusRunning}

// AwaitDelivered waits until no run or delivery is queued or running. A run may wait for people.
func (s *Server) AwaitDelivered() {
	s.t.Helper()
	s.Await("everything is delivered", func() bool { return s.runs(store.RunQuery{Statuses: unfinished}) == 0 })
}

// runs counts the runs that match a query.
func (s *Server) runs(of store.RunQuery) (n int) {
	s.t.Helper()
	err := s.store.View(s.t.Context(), func(r store.Reader) (err error) {
		rows, err := r.Runs(of)
		n = len(rows)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// connect wraps the platform's Connect and counts running adapters.
func (s *Server) connect(ctx context.Context, l *channel.Host) (channel.Adapter, error) {
	s.countLive(1)
	a, err := s.dial(ctx, l)
	if err != nil {
		s.countLive(-1)
		return nil, err
	}
	return countedAdapter{a, s}, nil
}

func (s *Server) countLive(more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live += more; s.live > 1 {
		s.t.Errorf("%d adapters run at once", s.live)
	}
}

// countedAdapter counts its adapter's Close.
type countedAdapter struct {
	channel.Adapter
	f *Server
}

func (n countedAdapter) Close() error {
	defer n.f.countLive(-1)
	return n.Adapter.Close()
}
