package client_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"mailroom"
	"mailroom/bus"
	"mailroom/client"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/server"
	"mailroom/store/memory"
	"mailroom/stream"
)

// exampleToken is the operator's secret, which `mailroom start` prints as its token.
const exampleToken = "a-token-hard-to-guess"

// exampleServer is a server on a free port of the machine, with its rows in memory.
type exampleServer struct {
	client *client.Client // a real program calls client.New with the address and the token of its server
	ledger *ledger.Ledger
	opened chan string // path of each stream whose answer has begun
	close  func()
}

func startServer(agents map[string]mailroom.AgentFunc) *exampleServer {
	s := &exampleServer{opened: make(chan string, 100)}
	quiet := slog.New(slog.DiscardHandler)
	b := bus.New()
	publish := func(thread string, entries []mailroom.Entry) {
		b.Publish(bus.Notice{Thread: thread, Entries: entries})
	}
	s.ledger = ledger.New(memory.New(), ledger.Options{Publish: publish, Log: quiet})
	served := map[string]engine.Agent{}
	for name, f := range agents {
		served[name] = engine.Agent{Agent: f}
	}
	worker := engine.New(s.ledger.Workers(), b, engine.Options{Agents: served, Log: quiet})
	web := server.New(server.Options{
		Ledger: server.PartsOf(s.ledger), Streams: stream.New(s.ledger, b), Bus: b,
		Access: server.Access{Token: exampleToken}, Log: quiet,
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)

	endLedger := run(s.ledger.Run)
	endWorker := run(worker.Run)
	endWeb := run(func(ctx context.Context) error { return web.Serve(ctx, listener) })
	wire := &http.Client{Transport: s}
	s.client = client.New("http://"+listener.Addr().String(), exampleToken, client.WithHTTPClient(wire))
	s.close = func() { // the engine and the server write with the ledger, so it ends last
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		endWeb()
		endWorker()
		endLedger()
	}
	return s
}

// RoundTrip implements http.RoundTripper. It notes the streams that are open, because the log of an example
// must not depend on who is faster.
func (s *exampleServer) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		s.opened <- r.URL.Path
	}
	return answer, err
}

// run starts a part of a server and returns the function that ends it.
func run(part func(context.Context) error) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	return func() {
		cancel()
		check(<-ended)
	}
}

// echo repeats the message that started the run.
func echo(ctx context.Context, s mailroom.Session) error {
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	return s.Stream(ctx, input[0].Text)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
