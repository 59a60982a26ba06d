package adapter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/auth"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/chat/adapter"
	"mailroom/channel/chat/outbound"
	"mailroom/engine"
	"mailroom/internal/reserved"
	"mailroom/ledger"
	"mailroom/schedule"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/sqlite"
	"mailroom/stream"
)

// serverFixture is a server with a channel "c" and an agent "codex". The user ann is an admin.
type serverFixture struct {
	t        *testing.T
	platform *Platform
	agent    mailroom.Agent
	options  chat.Options
	store    store.Store
	logs     channeltest.LogBuffer
	deaf     bool                              // the channel gets no notices of commits
	follow   func(chat.Follower) chat.Follower // replaces the streams of runs
	views    atomic.Int64                      // views of the store by the channel

	// Set by start.
	ledger *ledger.Ledger
	stop   func()
}

// viewCounter counts the reads of a channel.
type viewCounter struct {
	*ledger.Ledger
	views *atomic.Int64
}

func (c viewCounter) View(ctx context.Context, f func(store.Reader) error) error {
	c.views.Add(1)
	return c.Ledger.View(ctx, f)
}

func newServer(t *testing.T, agent mailroom.AgentFunc) *serverFixture {
	t.Helper()
	o := &serverFixture{t: t, platform: newPlatform(t), agent: agent, store: memory.New(), stop: func() {}}
	o.options = chat.Options{Agent: "codex", Access: chat.AccessPolicy{Admins: []string{"ann"}}}
	t.Cleanup(func() {
		o.stop()
		if t.Failed() {
			t.Log(o.logs.String())
		}
	})
	return o
}

// start runs the server until stop.
func (o *serverFixture) start() *serverFixture {
	o.t.Helper()
	log := slog.New(slog.NewTextHandler(&o.logs, &slog.HandlerOptions{Level: slog.LevelWarn}))
	l, b := channeltest.NewLedger(o.store, ledger.Options{Poll: time.Minute, Lease: lease})
	o.ledger = l
	options := o.options
	options.Follow = stream.New(o.ledger, b)
	if o.follow != nil {
		options.Follow = o.follow(options.Follow)
	}
	if !o.deaf {
		options.Commits = b
	}
	runner := channel.New(channel.Options{
		Name: "c", Kind: "test", Connect: adapter.Connect(options, o.platform.Dial), Ledger: viewCounter{o.ledger, &o.views},
		Log: log,
	})
	e := engine.New(o.ledger.Workers(), b, engine.Options{
		Agents: map[string]engine.Agent{
			"codex":                {Agent: o.agent, Limit: 8},
			channel.AgentName("c"): {Agent: runner.Agent(), Ready: runner.Connected, Limit: channel.MaxDeliveries},
			reserved.Scheduler:     {Agent: schedule.New(l, auth.NewOperator("secret")).Admit(o.admits), Limit: 4},
		},
		Local: true, Lease: lease, Sweep: time.Minute, ShutdownGrace: 20 * time.Millisecond, StopGrace: 50 * time.Millisecond,
		Log: log,
	})
	_, o.stop = channeltest.StartServer(o.t, o.ledger, e, runner)
	return o
}

// admits reports whether the user of a schedule may use the chat.
func (o *serverFixture) admits(ctx context.Context, user string) (bool, error) {
	return chat.Admits(ctx, o.ledger, map[string]*chat.AccessPolicy{"c": &o.options.Access}, user)
}

// out is ann's delivery thread.
const out = "out:c:" + BotID + ":with-ann"

// notes returns the entries of a kind in ann's delivery thread.
func (o *serverFixture) notes(kind string) (all []mailroom.Entry) {
	o.t.Helper()
	err := o.store.View(o.t.Context(), func(r store.Reader) (err error) {
		all, err = r.Entries(store.EntryQuery{Thread: out, Kinds: []string{kind}})
		return err
	})
	if err != nil {
		o.t.Fatal(err)
	}
	return all
}

// deliveries returns the runs of ann's delivery thread, the oldest first.
func (o *serverFixture) deliveries() (all []*mailroom.Run) {
	o.t.Helper()
	err := o.store.View(o.t.Context(), func(r store.Reader) error {
		rows, err := r.Runs(store.RunQuery{Thread: out})
		for i := len(rows) - 1; i >= 0; i-- {
			all = append(all, rows[i])
		}
		return err
	})
	if err != nil {
		o.t.Fatal(err)
	}
	return all
}

// awaitSettled waits until n deliveries to ann have ended and returns them.
func (o *serverFixture) awaitSettled(n int) (all []*mailroom.Run) {
	o.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Hour) // in a bubble; outside, the timeout of the test comes first
	for {
		all = o.deliveries()
		ended := 0
		for _, r := range all {
			if r.Status.Finished() {
				ended++
			}
		}
		if ended >= n && ended == len(all) {
			return all
		}
		select {
		case <-tick.C:
		case <-late:
			o.t.Fatalf("%d of %d deliveries ended", ended, n)
		}
	}
}

// sentTexts returns the present text of each message, the oldest first.
func (o *serverFixture) sentTexts() (all []string) {
	for _, s := range o.platform.Sent() {
		all = append(all, s.Message.Text)
	}
	return all
}

func (o *serverFixture) expectSent(want ...string) {
	o.t.Helper()
	if diff := cmp.Diff(want, o.sentTexts()); diff != "" {
		o.t.Errorf("sent (-want +got)\n%s", diff)
	}
}

// echo replies with the message.
func echo(ctx context.Context, s mailroom.Session) error {
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	return s.Stream(ctx, input[0].Text)
}

func rateLimited(after time.Duration) error {
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: after, Err: errors.New("too many requests")}
}

// TestAServerIsKilledDuringASend lists what a chat shows after a kill.
func TestAServerIsKilledDuringASend(t *testing.T) {
	type result struct{ Arrived, Marked int }
	for name, c := range map[string]struct {
		history       bool
		known         time.Duration
		before, after result // killed before or after the platform accepted the message
	}{
		"a platform with a history":             {history: true, before: result{1, 0}, after: result{1, 0}},
		"a platform that recognises keys":       {known: 5 * time.Minute, before: result{1, 0}, after: result{1, 0}},
		"a platform that has forgotten the key": {known: time.Nanosecond, before: result{1, 1}, after: result{2, 1}},
		"a platform with neither":               {before: result{1, 1}, after: result{2, 1}},
	} {
		for when, want := range map[string]result{"before": c.before, "after": c.after} {
			t.Run(name+", "+when, func(t *testing.T) {
				t.Parallel()
				o := newServer(t, echo)
				path := filepath.Join(t.TempDir(), "mailroom.db")
				o.open(path)
				o.platform.Capabilities.DedupWindow = c.known
				if !c.history {
					o.platform.Hook(CallFind, func(context.Context, CallArgs) error { return chat.ErrNoHistory })
				}
				killed := make(chan struct{})
				o.platform.Hook(CallSend, func(_ context.Context, call CallArgs) error {
					if when == "after" {
						call.Do()
					}
					o.platform.Hook(CallSend, func(_ context.Context, call CallArgs) error {
						if c.known > time.Minute && o.platform.HasKey(call.Key) {
							return nil
						}
						call.Do()
						return nil
					})
					err := o.store.Close()
					close(killed)
					return err
				})
				o.start()
				o.platform.SendPrivate("ann", "hello")
				<-killed
				o.stop()
				o.open(path)
				o.start()
				runs := o.awaitSettled(1)
				if len(runs) != 1 || runs[0].Status != mailroom.StatusCompleted {
					t.Errorf("deliveries: %+v", runs)
				}
				got := result{len(o.sentTexts()), len(o.notes(outbound.KindRepeated))}
				if got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
				o.stop()
				if err := o.store.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func (o *serverFixture) open(path string) {
	o.t.Helper()
	store, err := sqlite.Open(o.t.Context(), path, sqlite.Options{})
	if err != nil {
		o.t.Fatal(err)
	}
	o.store = store
}

// slowWriter writes one word each 300 ms.
func slowWriter(words int) mailroom.AgentFunc {
	return func(ctx context.Context, s mailroom.Session) error {
		for i := range words {
			if err := s.Stream(ctx, fmt.Sprintf("word%d ", i+1)); err != nil {
				return err
			}
			select {
			case <-time.After(300 * time.Millisecond):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	}
}

func words(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "word%d ", i+1)
	}
	return strings.TrimSpace(b.String())
}

func TestAFloodLimitWhileAnAnswerStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newServer(t, slowWriter(20)) // six seconds
		o.options.Previews = true
		o.platform.Capabilities.RoomInterval, o.platform.Capabilities.EditInterval = 500*time.Millisecond, time.Second
		began := time.Now()
		var mu sync.Mutex
		var until time.Time
		var calls []string
		for _, kind := range []CallKind{CallSend, CallEdit, CallTyping} {
			edits := 0
			o.platform.Hook(kind, func(_ context.Context, c CallArgs) error {
				mu.Lock()
				defer mu.Unlock()
				calls = append(calls, fmt.Sprintf("%s at %s", kind, time.Since(began).Round(100*time.Millisecond)))
				if time.Now().Before(until) {
					t.Errorf("%s during the room's rate limit", kind)
				}
				if edits++; kind == CallEdit && edits == 3 {
					until = time.Now().Add(time.Minute)
					return rateLimited(time.Minute)
				}
				c.Do()
				return nil
			})
		}
		o.start()
		o.platform.SendPrivate("ann", "hello")
		runs := o.awaitSettled(2)
		o.stop()
		o.expectSent(words(20))
		sent := o.platform.Sent()[0]
		if at := sent.At[len(sent.At)-1]; at.Before(until) || at.After(until.Add(13*time.Second)) {
			t.Errorf("reply after %s, but the limit ended after %s", at.Sub(began), until.Sub(began))
		}
		if n := len(sent.Versions); n != 4 {
			t.Errorf("%d versions of the message: %+v", n, sent.Versions)
		}
		for _, v := range sent.Versions[:3] {
			if !strings.HasSuffix(v.Text, " …") || !strings.HasPrefix(words(20), strings.TrimSuffix(v.Text, " …")) {
				t.Errorf("preview %q", v.Text)
			}
		}
		if len(o.notes(outbound.KindRepeated)) > 0 || runs[len(runs)-1].Failures > 0 {
			t.Errorf("delivery %+v", runs[len(runs)-1])
		}
		t.Log(strings.Join(calls, ", "))
	})
}

func TestAHundredRepliesKeepTheirOrderThroughFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newServer(t, echo)
		o.platform.Capabilities.RoomInterval = 50 * time.Millisecond
		rng := rand.New(rand.NewPCG(1, 2)) // deliveries run one at a time
		o.platform.Hook(CallSend, func(_ context.Context, c CallArgs) error {
			switch rng.IntN(8) {
			case 0:
				return rateLimited(time.Duration(rng.IntN(20)) * time.Second)
			case 1:
				return errors.New("the connection broke before anything was sent")
			case 2:
				c.Do()
				return fmt.Errorf("no response: %w", mailroom.ErrUnknown)
			case 3:
				return fmt.Errorf("no response: %w", mailroom.ErrUnknown)
			}
			c.Do()
			return nil
		})
		o.start()
		var want []string
		for i := range 100 {
			want = append(want, fmt.Sprint("reply ", i))
			o.platform.SendPrivate("ann", want[i])
		}
		for len(o.sentTexts()) < 100 {
			<-time.After(10 * time.Second)
		}
		o.awaitSettled(100)
		o.expectSent(want...)
	})
}

// TestALimitOfABotHoldsInAllItsChats limits the bot for a minute. The connection breaks during the
// limit.
func TestALimitOfABotHoldsInAllItsChats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newServer(t, echo)
		o.options.Previews = true
		o.options.Access.Users = []string{"bob", "carl"}
		var mu sync.Mutex
		var limited, until time.Time
		breaks := false
		for _, kind := range []CallKind{CallSend, CallEdit, CallTyping, CallAckButton} {
			o.platform.Hook(kind, func(_ context.Context, c CallArgs) error {
				mu.Lock()
				defer mu.Unlock()
				if time.Now().After(limited) && time.Now().Before(until) {
					t.Errorf("%s in %s during the bot's rate limit", kind, c.Room.Chat)
				}
				if kind == CallSend && until.IsZero() {
					limited, until = time.Now(), time.Now().Add(time.Minute)
					return fmt.Errorf("%w: %w", chat.ErrEverywhere, rateLimited(time.Minute))
				}
				c.Do()
				return nil
			})
		}
		o.platform.Hook(CallReceive, func(context.Context, CallArgs) error {
			mu.Lock()
			defer mu.Unlock()
			if breaks {
				breaks = false
				return errors.New("connection reset")
			}
			return nil
		})
		o.start()
		o.platform.SendPrivate("ann", "one")
		<-time.After(2 * time.Second)
		o.platform.SendPrivate("bob", "two")
		<-time.After(10 * time.Second)
		mu.Lock()
		breaks = true
		mu.Unlock()
		o.platform.SendPrivate("carl", "three")
		<-time.After(10 * time.Minute)
		got := o.sentTexts()
		slices.Sort(got)
		if diff := cmp.Diff([]string{"one", "three", "two"}, got); diff != "" {
			t.Error(diff)
		}
		for _, s := range o.platform.Sent() {
			if late := s.At[0].Sub(until); late < 0 || late > 13*time.Second {
				t.Errorf("%q was sent %s after the end of the limit", s.Message.Text, late)
			}
		}
		o.stop()
	})
}
