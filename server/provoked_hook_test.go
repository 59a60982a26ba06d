package server_test

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/adapter"
	"mailroom/channel/platformtest"
	"mailroom/channel/webhook"
	"mailroom/server"
)

// serveHook runs a webhook channel on the server of f until the end of the test.
func (f *fixture) serveHook(hooks *webhook.Hooks, name string) {
	f.t.Helper()
	o := webhook.Options{Hooks: hooks, Secret: func() (string, error) { return platformtest.WebhookSecret, nil }}
	r := channel.New(channel.Options{
		Name: name, Kind: webhook.Kind, Ledger: f.ledger, Log: slog.New(slog.DiscardHandler),
		Reconnect: o.ReconnectPolicy(),
		Connect:   adapter.Connect(chat.Options{Agent: "echo", Access: chat.AccessPolicy{AllowAll: true}}, o.Dial),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	f.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	for deadline := time.Now().Add(5 * time.Minute); r.State().Condition != channel.ConditionConnected; {
		if f.call("GET /healthz", ""); time.Now().After(deadline) {
			f.t.Fatalf("the channel is not connected: %+v", r.State())
		}
	}
}

// ofHooks are those of a webhook channel.
func (r *refusals) ofHooks() {
	hooks := webhook.NewHooks()
	f := start(r.t, func(o *server.Options) {
		o.Parts.Protocols = map[string]server.Protocol{webhook.Route: hooks.Protocol()}
	})
	f.serveHook(hooks, "ops")
	r.want("post-hook 404 not_found", f.call("POST /v1/hooks/none", `{}`))
	r.want("post-hook 401 unauthenticated", f.call("POST /v1/hooks/ops", `{}`))
}
