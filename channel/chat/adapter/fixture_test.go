package adapter_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/auth"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/chat/adapter"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

// lease is that of the engines here: many tests let virtual hours pass, in which each renewal costs processor time.
const lease = time.Hour

// fixture is a server with a channel "tg" and an agent "ann".
type fixture struct {
	t        *testing.T
	platform *Platform
	store    store.Store
	agent    *agent
	access   chat.AccessPolicy
	faults   *faultLedger
	logs     *channeltest.LogBuffer
	poll     time.Duration // interval of the ledger
	slots    int           // of the agent; 0: unlimited

	// Set by start.
	ledger *ledger.Ledger
	runner *channel.Runner
	stop   func()
}

// User ids, and a group in which every user may talk.
const (
	boss     = "boss"
	friend   = "friend"
	stranger = "stranger"
	room     = "room"
)

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{
		t: t, platform: newPlatform(t), store: memory.New(), agent: newAgent(), faults: &faultLedger{},
		logs: &channeltest.LogBuffer{}, poll: 20 * time.Millisecond,
		access: chat.AccessPolicy{Admins: []string{boss}, Users: []string{friend}, Chats: []string{room}, Pairing: true},
		stop:   func() {},
	}
	t.Cleanup(func() {
		w.agent.release()
		w.stop()
		if t.Failed() {
			t.Log(w.logs.String())
		}
	})
	return w
}

// start runs the server until stop.
func (w *fixture) start() *fixture {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelInfo}))
	l, b := channeltest.NewLedger(w.store, ledger.Options{Poll: w.poll, Lease: lease})
	w.ledger = l
	w.faults.Ledger = w.ledger
	w.runner = channel.New(channel.Options{
		Name: "tg", Kind: "test", Ledger: w.faults, Log: log,
		Connect: adapter.Connect(chat.Options{Agent: "ann", Access: w.access}, w.platform.Dial),
		Reconnect: channel.ReconnectPolicy{InitialDelay: time.Millisecond, MaxDelay: time.Millisecond, ParkAfter: -1,
			IdleTimeout: 20 * time.Second},
	})
	e := engine.New(w.ledger.Workers(), b, engine.Options{
		Agents: map[string]engine.Agent{"ann": {Agent: w.agent, Limit: w.slots},
			channel.AgentName("tg"): {Agent: w.runner.Agent(), Ready: w.runner.Connected, Limit: channel.MaxDeliveries}},
		Local: true, Lease: lease, Sweep: time.Minute, ShutdownGrace: 20 * time.Millisecond, Log: log,
	})
	_, w.stop = channeltest.StartServer(w.t, w.ledger, e, w.runner)
	return w
}

// agent replies "TEXT!" to a message. On "hold" it waits for release or a stop; on "ask X" it
// asks for approval and replies with the decision.
type agent struct {
	mu      sync.Mutex
	runs    map[string]bool // recorded runs
	texts   []string
	parts   [][]mailroom.Part
	threads []string
	steered []string
	held    chan struct{}
	changed chan struct{}
}

func newAgent() *agent {
	return &agent{runs: map[string]bool{}, held: make(chan struct{}), changed: make(chan struct{}, 1)}
}

func (a *agent) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.held:
	default:
		close(a.held)
	}
}

func (a *agent) Run(ctx context.Context, s mailroom.Session) error {
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	all := input[0]
	for _, m := range input[1:] {
		all.Text += "\n" + m.Text
		all.Parts = append(all.Parts, m.Parts...)
	}
	text := all.Text
	a.record(s.Run(), all)
	if what, ok := strings.CutPrefix(text, "ask "); ok {
		k, err := s.Wait(ctx, false, mailroom.Ask{Name: "may", Kind: mailroom.TicketApproval, Prompt: "May I " + what + "?",
			Action: what})
		if err != nil {
			return err
		}
		return s.Stream(ctx, what+": "+string(k[0].Decision)+string(k[0].State))
	}
	if text == "hold" {
		if err := a.hold(ctx, s); err != nil {
			return err
		}
	}
	return s.Stream(ctx, text+"!")
}

// record records a run's message once, although an attempt that is stopped early may be repeated.
func (a *agent) record(run mailroom.RunView, m mailroom.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.runs[run.ID] {
		return
	}
	a.runs[run.ID] = true
	a.texts, a.threads, a.parts = append(a.texts, m.Text), append(a.threads, run.Thread), append(a.parts, m.Parts)
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// hold reads steering messages until it is released.
func (a *agent) hold(ctx context.Context, s mailroom.Session) error {
	turn := time.NewTicker(2 * time.Millisecond)
	defer turn.Stop()
	for {
		more, err := s.Steered(ctx)
		if err != nil {
			return err
		}
		a.mu.Lock()
		for _, m := range more {
			a.steered = append(a.steered, m.Text)
		}
		a.mu.Unlock()
		select {
		case <-a.held:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-turn.C:
		}
	}
}

// awaitHeard waits for n messages to the agent and returns all.
func (w *fixture) awaitHeard(n int) []string {
	w.t.Helper()
	deadline := time.After(5 * time.Minute)
	for {
		w.agent.mu.Lock()
		inputs := slices.Clone(w.agent.texts)
		w.agent.mu.Unlock()
		if len(inputs) >= n {
			return inputs
		}
		select {
		case <-w.agent.changed:
		case <-deadline:
			w.t.Fatalf("inputs of the agent %q, want %d", inputs, n)
		}
	}
}

// texts returns the first text of each message.
func texts(sent []Sent) (all []string) {
	for _, s := range sent {
		all = append(all, s.Versions[0].Text)
	}
	return all
}

// awaitText waits for a message that contains part.
func (w *fixture) awaitText(part string) (found Sent) {
	w.t.Helper()
	w.platform.Await("a message with "+part, func() bool {
		for _, s := range w.platform.Sent() {
			for _, v := range s.Versions {
				if strings.Contains(v.Text, part) {
					found = s
					return true
				}
			}
		}
		return false
	})
	return found
}

// awaitSettled waits until no run is queued or running.
func (w *fixture) awaitSettled() {
	w.t.Helper()
	w.platform.AwaitReceived()
	w.await("everything to end", func(r store.Reader) bool {
		counts, err := r.Count(store.CountQuery{Statuses: []mailroom.Status{mailroom.StatusQueued, mailroom.StatusRunning}})
		return err == nil && counts.Sum() == 0
	})
}

// await waits until ok reports true.
func (w *fixture) await(what string, ok func(r store.Reader) bool) {
	w.t.Helper()
	turn := time.NewTicker(2 * time.Millisecond)
	defer turn.Stop()
	deadline := time.After(5 * time.Minute)
	for {
		done := false
		err := w.store.View(context.Background(), func(r store.Reader) error {
			done = ok(r)
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
		if done {
			return
		}
		select {
		case <-turn.C:
		case <-deadline:
			w.t.Fatalf("timeout waiting for %s\nsent: %q", what, texts(w.platform.Sent()))
		}
	}
}

func (w *fixture) view(f func(r store.Reader) error) {
	w.t.Helper()
	if err := w.store.View(context.Background(), f); err != nil {
		w.t.Fatal(err)
	}
}

// threads returns the ids of all threads except the channel's log.
func (w *fixture) threads() (ids []string) {
	w.t.Helper()
	w.view(func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{})
		for _, row := range rows {
			if row.ID != channel.LogThreadID("tg") {
				ids = append(ids, row.ID)
			}
		}
		return err
	})
	slices.Sort(ids)
	return ids
}

func (w *fixture) ticket() *mailroom.Ticket {
	w.t.Helper()
	var found []*mailroom.Ticket
	w.view(func(r store.Reader) (err error) {
		found, err = r.Tickets(store.TicketQuery{})
		return err
	})
	if len(found) != 1 {
		w.t.Fatalf("%d tickets", len(found))
	}
	return found[0]
}

func wantEqual[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// faultLedger simulates a kill at a write: the write is lost, or applied without an answer, and
// every later write fails until revive.
type faultLedger struct {
	channel.Ledger // set by start

	mu      sync.Mutex
	writes  int // since arm
	at      int // number of the write to fail, from 1; 0: none
	applied bool
	dead    bool
	died    chan struct{}
}

var errKilled = errors.New("killed")

// arm plans a kill at the n-th write from now.
func (f *faultLedger) arm(n int, applied bool) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes, f.at, f.applied, f.dead, f.died = 0, n, applied, false, make(chan struct{})
	return f.died
}

func (f *faultLedger) isDead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

func (f *faultLedger) revive() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.dead = 0, false
}

func (f *faultLedger) write(do func() error) error {
	f.mu.Lock()
	if f.dead {
		f.mu.Unlock()
		return errKilled
	}
	f.writes++
	now := f.at > 0 && f.writes == f.at
	applied := f.applied
	if now {
		f.dead = true
		defer close(f.died)
	}
	f.mu.Unlock()
	if !now || applied {
		if err := do(); err != nil {
			return err
		}
	}
	if now {
		return errKilled
	}
	return nil
}

func (f *faultLedger) Submit(ctx context.Context, in thread.Submit) (out store.Submitted, err error) {
	err = f.write(func() (err error) { out, err = f.Ledger.Submit(ctx, in); return err })
	return out, err
}

func (f *faultLedger) MoveCursor(ctx context.Context, c store.Cursor) error {
	return f.write(func() error { return f.Ledger.MoveCursor(ctx, c) })
}

func (f *faultLedger) Edit(
	ctx context.Context, thread, message string, parts []mailroom.Part,
) (out mailroom.Message, err error) {
	err = f.write(func() (err error) { out, err = f.Ledger.Edit(ctx, thread, message, parts); return err })
	return out, err
}

func (f *faultLedger) Retract(ctx context.Context, thread, message string) error {
	return f.write(func() error { return f.Ledger.Retract(ctx, thread, message) })
}

func (f *faultLedger) Decide(ctx context.Context, d thread.Decision) (out *mailroom.Ticket, err error) {
	err = f.write(func() (err error) { out, err = f.Ledger.Decide(ctx, d); return err })
	return out, err
}

func (f *faultLedger) InterruptBefore(
	ctx context.Context, thread string, place int64, who *auth.Token,
) (out thread.Interrupted, err error) {
	err = f.write(func() (err error) { out, err = f.Ledger.InterruptBefore(ctx, thread, place, who); return err })
	return out, err
}

func (f *faultLedger) ChangeCursor(
	ctx context.Context, channel, identity string, g func(json.RawMessage, time.Time) (json.RawMessage, error),
) error {
	return f.write(func() error { return f.Ledger.ChangeCursor(ctx, channel, identity, g) })
}
