package channel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"mailroom"
	"mailroom/bus"
	"mailroom/channel"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/store/memory"
)

// wall is a platform with one chat: words come in, and replies go out.
type wall struct {
	in  chan string
	out chan string
}

// connect is the channel's Connect. A real one opens a connection and checks the credentials.
func (w *wall) connect(_ context.Context, host *channel.Host) (channel.Adapter, error) {
	return &wallAdapter{wall: w, host: host}, nil
}

// wallAdapter is one connection. It never reconnects: it returns an error, and the runner connects again.
type wallAdapter struct {
	*wall
	host *channel.Host
}

// Receive submits what was written on the wall. The key names the message, so that a message which is read twice
// is submitted once, and a real adapter moves a cursor in the same transaction.
func (a *wallAdapter) Receive(ctx context.Context) error {
	a.host.Received() // proves that the connection works
	for n := 1; ; n++ {
		select {
		case words := <-a.in:
			_, err := a.host.Submit(ctx, channel.Inbound{
				Chat: []string{"wall"}, Key: fmt.Sprint(n), Sender: "ann", Agent: "greeter", Parts: mailroom.Text(words),
			})
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// Deliver sends a reply. Do records that it was sent, so that it is not sent again after a crash.
func (a *wallAdapter) Deliver(ctx context.Context, d channel.Delivery, s mailroom.Session) error {
	send := mailroom.Effect{Name: "send", Idempotent: true}
	_, err := s.Do(ctx, send, func(context.Context, string) (json.RawMessage, error) {
		a.out <- d.Text
		return json.RawMessage(`"sent"`), nil
	})
	a.host.Sent()
	return err
}

func (a *wallAdapter) Maintain(context.Context) error { return nil } // no heartbeats
func (a *wallAdapter) Close() error                   { return nil }

// A new platform is an Adapter, and a Runner keeps it connected. Deliveries are runs of the runner's agent, which
// start while the channel is connected. For a chat platform, package channel/chat/adapter is the Adapter, and the
// platform implements the smaller interface of package channel/chat.
func ExampleAdapter() {
	quiet := slog.New(slog.DiscardHandler)
	b := bus.New()
	l := ledger.New(memory.New(), ledger.Options{Publish: func(id string, entries []mailroom.Entry) {
		b.Publish(bus.Notice{Thread: id, Entries: entries})
	}})
	w := &wall{in: make(chan string), out: make(chan string)}
	r := channel.New(channel.Options{Name: "wall", Kind: "wall", Connect: w.connect, Ledger: l, Log: quiet})
	e := engine.New(l.Workers(), b, engine.Options{Log: quiet, Agents: map[string]engine.Agent{
		channel.AgentName("wall"): {Agent: r.Agent(), Ready: r.Connected},
		"greeter": {Agent: mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error {
			input, err := s.Input(ctx)
			if err != nil {
				return err
			}
			return s.Stream(ctx, "Hello, "+input[0].Sender+"!")
		})},
	}})
	endLedger := runPart(l.Run)
	endEngine := runPart(e.Run)
	endChannel := runPart(func(ctx context.Context) error { r.Run(ctx); return nil })

	w.in <- "Good morning"
	fmt.Println(<-w.out)
	fmt.Println(r.State().Condition)
	endChannel()
	endEngine()
	endLedger()
	// Output:
	// Hello, ann!
	// connected
}

// runPart starts a part of a server and returns the function that ends it.
func runPart(part func(context.Context) error) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			panic(err)
		}
	}
}
