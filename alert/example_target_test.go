package alert_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/store/memory"
	"mailroom/thread"
)

// pager is a target: a way to reach people. It makes one call and classifies its error, as an agent does. Retries,
// order and dead letters work as for runs.
type pager struct{ call func(text string) error }

func (p pager) Send(_ context.Context, m alert.Message) (receipt string, err error) {
	text := m.Title
	if m.Repeated { // an earlier try may have arrived, and a pager recognizes no repeat by m.Key
		text = "(repeated) " + text
	}
	if err := p.call(text); err != nil {
		return "", &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: err}
	}
	return "", nil
}

// A target is served as an agent: an alert is a run in the target's thread. The follower reads the log, and
// submits what the rules name.
func ExampleTarget() {
	ctx := context.Background()
	paged := make(chan string, 10)
	quiet := slog.New(slog.DiscardHandler)
	b := bus.New()
	l := ledger.New(memory.New(), ledger.Options{Publish: func(id string, entries []mailroom.Entry) {
		b.Publish(bus.Notice{Thread: id, Entries: entries})
	}})
	to := pager{call: func(text string) error { paged <- text; return nil }}
	e := engine.New(l.Workers(), b, engine.Options{Log: quiet, Agents: map[string]engine.Agent{
		alert.AgentName("pager"): {Agent: alert.New(alert.Options{
			Name: "pager", Target: to, Ledger: seam{l}, Zone: time.UTC, Targets: []string{"pager"},
		})},
		"deployer": {Agent: mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error {
			ask := mailroom.Ask{Name: "deploy", Kind: mailroom.TicketApproval, Prompt: "May I deploy?"}
			_, err := s.Wait(ctx, false, ask)
			return err
		})},
	}})
	rule := alert.Rule{
		Name: "questions", When: []alert.Kind{alert.KindTicket}, To: []string{"pager"}, Text: alert.TextTitle, Zone: time.UTC,
	}
	follower := &alert.Follower{
		Ledger: seam{l}, Log: quiet, Targets: alert.Allowed{"pager": nil}, Rules: []alert.Rule{rule},
	}
	endLedger := runPart(l.Run)
	endEngine := runPart(e.Run)
	if err := follower.Begin(ctx, follower.Ledger); err != nil { // alerts begin here
		panic(err)
	}
	endFollower := runPart(func(ctx context.Context) error { follower.Follow(ctx); return nil })

	_, err := l.Submit(ctx, thread.Submit{
		Thread: "releases", Agent: "deployer", Messages: []thread.NewMessage{{Parts: mailroom.Text("ship it")}},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(<-paged)
	endFollower()
	endEngine()
	endLedger()
	// Output: deployer asks: May I deploy?
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
