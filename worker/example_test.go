package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
	"mailroom/worker"
)

// The main function of a worker. Its server and its token are in MAILROOM_URL and MAILROOM_TOKEN.
func ExampleMain() {
	main := func() {
		worker.Main("shout", func(ctx context.Context, s mailroom.Session) error {
			input, err := s.Input(ctx)
			if err != nil {
				return err
			}
			return s.Stream(ctx, strings.ToUpper(input[0].Text))
		})
	}
	_ = main
}

// An agent with a call that happens once, however often the run starts again, and a question to a person. While the run
// waits for the answer, no process holds it.
func ExampleServe() {
	clerk := func(ctx context.Context, s mailroom.Session) error {
		order, err := s.Do(ctx, mailroom.Effect{Name: "order"}, place)
		if err != nil {
			return err
		}
		asked, err := s.Wait(ctx, false, mailroom.Ask{
			Name: "pay", Kind: mailroom.TicketApproval, Prompt: "Pay it?", Action: "pay", Arguments: order,
		})
		if err != nil {
			return err // also while the run waits
		}
		worker.Log(ctx).Info("decided", "decision", asked[0].Decision)
		return s.Stream(ctx, fmt.Sprintf("%s: %s", asked[0].Decision, order))
	}
	h := startHost() // a real worker has its address and its token in MAILROOM_URL and MAILROOM_TOKEN
	defer h.close()
	ready := make(chan struct{})
	o := worker.Options{URL: h.url, Token: operatorToken, Slots: 8, Log: slog.New(slog.DiscardHandler),
		OnReady: func() { close(ready) }}
	stop := begin(func(ctx context.Context) error { // of signal.NotifyContext
		return worker.Serve(ctx, o, map[string]mailroom.Agent{"clerk": mailroom.AgentFunc(clerk)})
	})
	<-ready

	c, ctx := h.admin, context.Background()
	sent, err := c.Submit(ctx, api.Submit{Agent: "clerk", Text: "ten pencils"})
	check(err)
	for _, err := range c.Follow(ctx, client.FollowQuery{Run: sent.Run, Until: client.UntilWaiting}) {
		check(err)
	}
	open, err := client.Collect(ctx, c.Tickets, client.ListQuery{Q: "state:open"})
	check(err)
	for _, t := range open {
		fmt.Println(*t.Prompt, string(t.Arguments))
		_, err := c.Decide(ctx, t.ID, api.Decision{Decision: mailroom.VerdictApprove, Digest: t.Digest})
		check(err)
	}
	run, err := c.WaitRun(ctx, sent.Run, time.Minute)
	check(err)
	fmt.Println(*run.Reply)
	check(stop())
	// Output:
	// Pay it? {"pencils":10}
	// approve: {"pencils":10}
}

// place places an order. A shop that gets the same key again does not deliver twice.
func place(_ context.Context, key string) (json.RawMessage, error) {
	return json.RawMessage(`{"pencils":10}`), nil
}
