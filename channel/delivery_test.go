package channel_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/bus"
	"mailroom/channel"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
)

// serverFixture is a server with the channel "c" and the agent "echo", in a synctest bubble.
type serverFixture struct {
	*channel.Runner
	t      *testing.T
	ledger *ledger.Ledger
	store  store.Store
	p      *platform
	ended  func(context.Context, map[string]string) (string, error) // see channel.Options

	mu   sync.Mutex
	sent []string
}

// withServer runs a server and calls look. The server polls rarely, so that long times pass quickly and
// the tests see only the effects of events.
func withServer(t *testing.T, agent mailroom.Agent, prepare func(o *serverFixture), look func(o *serverFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &serverFixture{t: t, p: &platform{}, store: memory.New()}
		o.p.deliver = func(_ context.Context, l *channel.Host) error { l.Sent(); return nil }
		prepare(o)
		b := bus.New()
		const lease, sweep = time.Hour, 10 * time.Minute
		o.ledger = ledger.New(o.store, ledger.Options{
			Lease: lease, Poll: sweep,
			Publish: func(thread string, entries []mailroom.Entry) { b.Publish(bus.Notice{Thread: thread, Entries: entries}) },
		})
		o.Runner = channel.New(channel.Options{Name: "c", Connect: o.p.Connect, Ledger: o.ledger, Ended: o.ended,
			Jitter: func() float64 {
				return 0
			}})
		e := engine.New(o.ledger.Workers(), b, engine.Options{
			Agents: map[string]engine.Agent{"echo": {Agent: agent},
				channel.AgentName("c"): {Agent: o.Agent(), Ready: o.Connected}},
			Local: true, Lease: lease, Sweep: sweep,
		})
		ctx, cancel := context.WithCancel(t.Context())
		ledgerCtx, cancelLedger := context.WithCancel(t.Context())
		var parts, last sync.WaitGroup
		last.Go(func() { _ = o.ledger.Run(ledgerCtx) }) // the tests check the results
		parts.Go(func() { _ = e.Run(ctx) })             // as above
		parts.Go(func() { o.Run(ctx) })
		synctest.Wait()
		look(o)
		cancel()
		parts.Wait()
		cancelLedger()
		last.Wait()
	})
}

// advance lets time pass.
func (o *serverFixture) advance(d time.Duration) *serverFixture {
	<-time.After(d)
	synctest.Wait()
	return o
}

// host returns the host of the current adapter.
func (o *serverFixture) host() *channel.Host {
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	return o.p.hosts[len(o.p.hosts)-1]
}

func (o *serverFixture) inbound(key, text string) channel.Inbound {
	return channel.Inbound{
		Chat: []string{"chat", "1"}, Key: key, Parts: mailroom.Text(text), Sender: "ann", Agent: "echo",
		Cursor: channel.Cursor{Identity: "bot", Position: []byte(`"` + key + `"`)},
	}
}

func (o *serverFixture) submit(key, text string) store.Submitted {
	o.t.Helper()
	out, err := o.host().Submit(o.t.Context(), o.inbound(key, text))
	if err != nil {
		o.t.Fatal(err)
	}
	synctest.Wait()
	return out
}

// position returns the saved position of an identity.
func (o *serverFixture) position(identity string) string {
	o.t.Helper()
	raw, err := o.host().Position(o.t.Context(), identity)
	if err != nil {
		o.t.Fatal(err)
	}
	return string(raw)
}

// onDeliver records the text of each delivery and then calls then, if it is not nil.
func (o *serverFixture) onDeliver(then func(ctx context.Context, l *channel.Host) error) {
	o.p.delivered = func(d channel.Delivery) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.sent = append(o.sent, d.Text)
	}
	if then != nil {
		o.p.deliver = then
	}
}

func (o *serverFixture) delivered() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.sent)
}

// run returns the latest run of a thread.
func (o *serverFixture) run(thread string) *mailroom.Run {
	o.t.Helper()
	var runs []*mailroom.Run
	err := o.store.View(o.t.Context(), func(r store.Reader) (err error) {
		runs, err = r.Runs(store.RunQuery{Thread: thread, Limit: 1})
		return err
	})
	if err != nil || len(runs) == 0 {
		o.t.Fatalf("%s has %d runs: %v", thread, len(runs), err)
	}
	return runs[0]
}

var echo = mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error {
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	return s.Stream(ctx, input[len(input)-1].Text)
})

const chat, out = "c:chat:1", "out:c:chat:1"

func TestAMessageIsSubmittedOnceWithItsCursorAndAnswered(t *testing.T) {
	var up atomic.Bool
	up.Store(true)
	withServer(t, echo, func(o *serverFixture) {
		o.p.receive = pollWhile(&up)
		o.onDeliver(nil)
	}, func(o *serverFixture) {
		if first, second := o.submit("7", "hello"), o.submit("7",
			"hello"); second.Disposition != store.DispositionDuplicate || second.Run != first.Run {
			t.Errorf("the second submit returned %+v, the first %+v", second, first)
		}
		if diff := cmp.Diff([]string{"hello"}, o.advance(time.Second).delivered()); diff != "" ||
			o.position("bot") != `"7"` || o.position("another") != "" {
			t.Errorf("position %s; sent %s", o.position("bot"), diff)
		}
		if s := o.State(); s.LastInbound.IsZero() || s.LastOutbound.IsZero() {
			t.Errorf("the state is %+v", s)
		}
	})
}

// TestADeliveryInProgressMayEndBeforeItsAdapterIsClosed breaks the connection during a slow
// delivery.
func TestADeliveryInProgressMayEndBeforeItsAdapterIsClosed(t *testing.T) {
	for name, c := range map[string]struct {
		takes, closed time.Duration
	}{"soon": {2 * time.Second, 2 * time.Second}, "too long": {time.Minute, 5 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			var cut chan error
			var closed []time.Duration
			var began time.Time
			withServer(t, echo, func(o *serverFixture) {
				cut = make(chan error)
				o.p.receive = func(ctx context.Context, l *channel.Host) error {
					l.Received()
					select {
					case err := <-cut:
						return err
					case <-ctx.Done():
						return nil
					}
				}
				o.p.close = func() error {
					closed = append(closed, time.Since(began))
					return nil
				}
				o.onDeliver(func(ctx context.Context, l *channel.Host) error {
					select {
					case <-time.After(c.takes):
						l.Sent()
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
			}, func(o *serverFixture) {
				o.submit("7", "hello")
				began = time.Now()
				cut <- errors.New("cut")
				o.advance(2 * time.Minute)
				if len(closed) < 1 || closed[0] != c.closed || len(o.delivered()) != 1 {
					t.Errorf("adapter closed after %v; delivered %q", closed, o.delivered())
				}
				if d := o.run(out); d.Status != mailroom.StatusCompleted {
					t.Errorf("the delivery is %s: %+v", d.Status, d.Error)
				}
				if s := o.State(); s.LastOutbound.Sub(began) != c.takes {
					t.Errorf("last receipt %v after the start", s.LastOutbound.Sub(began))
				}
			})
		})
	}
}

func TestAnUnreadMessageCanBeEdited(t *testing.T) {
	var up atomic.Bool
	up.Store(true)
	var gate chan struct{}
	slow := mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error {
		select {
		case <-gate:
			return echo(ctx, s)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	withServer(t, slow, func(o *serverFixture) {
		gate = make(chan struct{})
		o.p.receive = pollWhile(&up)
		o.onDeliver(nil)
	}, func(o *serverFixture) {
		o.submit("1", "one") // it is being processed
		o.submit("2", "two")
		o.submit("3", "three")
		amend := func(key, text, position string) bool {
			t.Helper()
			e := channel.Edit{Chat: []string{"chat", "1"}, Key: key,
				Cursor: channel.Cursor{Identity: "bot", Position: []byte(position)}}
			if text != "" {
				e.Parts = mailroom.Text(text)
			}
			out, err := o.host().Edit(o.t.Context(), e)
			if got := o.position("bot"); err != nil || got != position {
				t.Errorf("%s: %v; the position is %s", key, err, got)
			}
			return out.Changed
		}
		for i, c := range []struct {
			key, text string
			want      bool
		}{{"2", "zwei", true}, {"3", "", true}, {"1", "eins", false}, {"unknown", "x", false}, {"3", "drei", false}} {
			if got := amend(c.key, c.text, `"`+string(rune('a'+i))+`"`); got != c.want {
				t.Errorf("%s, %q: changed is %v, want %v", c.key, c.text, got, c.want)
			}
		}
		close(gate)
		if diff := cmp.Diff([]string{"one", "zwei"}, slices.DeleteFunc(o.advance(time.Second).delivered(),
			func(s string) bool {
				return s == ""
			})); diff != "" {
			t.Errorf("delivered %s", diff)
		}
	})
}

// TestAMessageOfTheChannelThatHasEndedIsNotSent has two messages of the channel itself; one need not be sent any
// more when its turn comes.
func TestAMessageOfTheChannelThatHasEndedIsNotSent(t *testing.T) {
	var up atomic.Bool
	up.Store(true)
	withServer(t, echo, func(o *serverFixture) {
		o.ended = func(_ context.Context, labels map[string]string) (string, error) { return labels["why"], nil }
		o.p.receive = pollWhile(&up)
		o.onDeliver(nil)
	}, func(o *serverFixture) {
		for key, why := range map[string]string{"one": "", "two": "its rule was removed"} {
			err := channel.SendAnswer(o.t.Context(), o.ledger, "c",
				channel.Answer{Room: []string{"r"}, Key: key, Text: key, Metadata: map[string]string{"why": why}})
			if err != nil {
				t.Fatal(err)
			}
		}
		sent := o.advance(time.Minute).delivered()
		var failed []string
		err := o.ledger.View(o.t.Context(), func(r store.Reader) error {
			runs, err := r.Runs(store.RunQuery{Thread: channel.DeliveryThreadID(channel.ThreadID("c", "r"))})
			for _, run := range runs {
				if run.Error != nil {
					failed = append(failed, run.Error.Message)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"one"}, sent); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"not sent: its rule was removed"}, failed); diff != "" {
			t.Errorf("errors (-want +got):\n%s", diff)
		}
	})
}
