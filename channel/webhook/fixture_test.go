package webhook_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/chat/adapter"
	"mailroom/channel/platformtest"
	"mailroom/channel/webhook"
	"mailroom/engine"
	"mailroom/internal/netguard"
	"mailroom/ledger"
	"mailroom/server"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a server with a webhook channel "ops" and its receiver.
type fixture struct {
	*platformtest.WebhookReceiver
	t          *testing.T
	options    webhook.Options
	access     chat.AccessPolicy
	agent      mailroom.AgentFunc
	store      store.Store
	logs       *channeltest.LogBuffer
	secret     func() (string, error)
	wrapLedger func(channel.Ledger) channel.Ledger // wraps the channel's ledger; may be nil

	// Set by start.
	program     platformtest.WebhookProgram
	ledger      *ledger.Ledger
	runner      *channel.Runner
	stopChannel func() // stops the channel and the engine
	stop        func() // nil while stopped
}

// echo replies with its input.
func echo(ctx context.Context, s mailroom.Session) error {
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	return s.Stream(ctx, input[len(input)-1].Text)
}

// newFixture returns a fixture whose channel admits everyone and whose agent echoes; start starts
// it.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	o := &fixture{
		t: t, WebhookReceiver: platformtest.NewWebhookReceiver(t), agent: echo, store: memory.New(),
		logs:   &channeltest.LogBuffer{},
		access: chat.AccessPolicy{AllowAll: true},
		secret: func() (string, error) { return platformtest.WebhookSecret, nil },
	}
	o.options = webhook.Options{
		URL: o.URL + "/take?token=hush", Policy: loopback(), EditGap: 10 * time.Millisecond, Timeout: 20 * time.Second,
	}
	t.Cleanup(func() {
		if o.stop != nil {
			o.stop()
		}
		all := o.logs.String()
		raw := strings.TrimPrefix(platformtest.WebhookSecret, "whsec_")
		for _, secret := range []string{platformtest.WebhookKey, raw, "hush"} {
			if strings.Contains(all, secret) {
				t.Errorf("%q is in the log: %s", secret, all)
			}
		}
		if t.Failed() {
			t.Logf("%s\n%+v", all, o.Posts())
		}
	})
	return o
}

func loopback() (p netguard.Policy) {
	p.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	return p
}

// start starts the server and waits until the channel is connected.
func (o *fixture) start() *fixture {
	o.t.Helper()
	o.startServer()
	o.waitCondition(channel.ConditionConnected)
	return o
}

func (o *fixture) startServer() {
	o.t.Helper()
	log := slog.New(slog.NewTextHandler(o.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	l, b := channeltest.NewLedger(o.store, ledger.Options{})
	hooks := webhook.NewHooks()
	hooks.Expect("ops")
	hooks.Expect("down")
	o.options.Hooks, o.options.Secret = hooks, func() (string, error) { return o.secret() }
	streams := stream.New(l, b)
	pace := o.options.ReconnectPolicy()
	pace.InitialDelay, pace.MaxDelay, pace.ParkAfter = 10*time.Millisecond, 50*time.Millisecond, -1
	taking := channel.Ledger(l)
	if o.wrapLedger != nil {
		taking = o.wrapLedger(l)
	}
	o.runner = channel.New(channel.Options{
		Name: "ops", Kind: webhook.Kind, Ledger: taking, Log: log, Reconnect: pace,
		Connect: adapter.Connect(chat.Options{Agent: "codex", Access: o.access, Follow: streams, Previews: true},
			o.options.Dial),
	})
	e := engine.New(l.Workers(), b, engine.Options{
		Agents: map[string]engine.Agent{"codex": {Agent: o.agent},
			channel.AgentName("ops"): {Agent: o.runner.Agent(), Ready: o.runner.Connected}},
		Local: true, ShutdownGrace: 100 * time.Millisecond, Log: log,
	})
	s := httptest.NewServer(server.New(server.Options{
		Ledger: server.PartsOf(l), Streams: streams, Log: log,
		Access: server.Access{Token: "operator"}, Limits: server.Limits{BodyTimeout: 10 * time.Minute},
		Parts: server.Parts{Protocols: map[string]server.Protocol{webhook.Route: hooks.Protocol()}},
	}))
	stopChannel, stop := channeltest.StartServer(o.t, l, e, o.runner)
	o.ledger, o.program = l, platformtest.WebhookProgram{URL: s.URL, Key: platformtest.WebhookKey}
	o.stopChannel = stopChannel
	o.stop = func() {
		o.stopChannel()
		s.Close()
		stop()
		o.stop = nil
	}
}

// waitCondition waits for a condition of the channel.
func (o *fixture) waitCondition(want channel.Condition) {
	o.t.Helper()
	o.WaitFor(o.t, string(want), func() bool { return o.runner.State().Condition == want })
}

// waitError waits until the channel has reported an error that contains words, also one that a later one has replaced
// in the state.
func (o *fixture) waitError(words string) {
	o.t.Helper()
	o.WaitFor(o.t, "the error "+words, func() bool {
		for line := range strings.Lines(o.logs.String()) {
			if _, reported, found := strings.Cut(line, " error="); found && strings.Contains(reported, words) {
				return true
			}
		}
		return words == ""
	})
}

// post sends a request and expects a status.
func (o *fixture) post(id, body string, want int) platformtest.WebhookAnswer {
	o.t.Helper()
	a, err := o.program.Post("ops", id, body, nil)
	if err != nil || a.Code != want {
		o.t.Fatalf("post %s: %d %s, %v; want %d", id, a.Code, a.Body, err, want)
	}
	return a
}

// postMessage sends a message of Ann in a room.
func (o *fixture) postMessage(id, room, text string) {
	o.t.Helper()
	o.post(id, platformtest.WebhookMessage(room, "ann", text), 202)
}

// waitTexts waits until the receiver has exactly these texts.
func (o *fixture) waitTexts(want ...string) {
	o.t.Helper()
	all := strings.Join(want, "|")
	o.WaitFor(o.t, "the texts "+all, func() bool { return strings.Join(o.Texts(), "|") == all })
	o.waitIdle()
	if got := strings.Join(o.Texts(), "|"); got != all {
		o.t.Errorf("got %s, want %s", got, all)
	}
}

// waitIdle waits until no run is queued or running.
func (o *fixture) waitIdle() {
	o.t.Helper()
	o.WaitFor(o.t, "all runs finished", func() bool {
		return o.countRuns(store.RunQuery{Statuses: []mailroom.Status{mailroom.StatusQueued, mailroom.StatusRunning}}) == 0
	})
}

func (o *fixture) countRuns(q store.RunQuery) (n int) {
	o.t.Helper()
	err := o.store.View(o.t.Context(), func(r store.Reader) (err error) {
		rows, err := r.Runs(q)
		n = len(rows)
		return err
	})
	if err != nil {
		o.t.Fatal(err)
	}
	return n
}

// entries returns the entries of one kind in a thread.
func (o *fixture) entries(thread, kind string) (found []mailroom.Entry) {
	o.t.Helper()
	err := o.store.View(o.t.Context(), func(r store.Reader) (err error) {
		found, err = r.Entries(store.EntryQuery{Thread: thread, Kinds: []string{kind}})
		return err
	})
	if err != nil {
		o.t.Fatal(err)
	}
	return found
}

// requestBody encodes the fields of a request.
func requestBody(t *testing.T, fields map[string]any) string {
	t.Helper()
	raw, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
