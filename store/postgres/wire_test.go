package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"mailroom/bus"
	"mailroom/internal/pgtest"
)

// startWire runs a wire until the test ends. Its hints arrive on the channel.
func startWire(t *testing.T, o Options) (*Wire, <-chan bus.Hint) {
	t.Helper()
	w, err := NewWire(o, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	hints, ended := make(chan bus.Hint, 1000), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- w.Run(ctx, func(h bus.Hint) { hints <- h }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	awaitHint(t, hints, bus.Hint{Kind: bus.HintLook}) // it listens
	return w, hints
}

// awaitHint skips other hints.
func awaitHint(t *testing.T, hints <-chan bus.Hint, want bus.Hint) {
	t.Helper()
	limit := time.After(5 * time.Minute)
	for {
		select {
		case h := <-hints:
			if h == want {
				return
			}
		case <-limit:
			t.Fatalf("no hint %v", want)
		}
	}
}

func TestAWireCarriesHintsBetweenServers(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Durable(t)
	o := Options{URL: cluster.URL(), Schema: "one"}
	a, ofA := startWire(t, o)
	b, ofB := startWire(t, o)
	other := o
	other.Schema = "two"
	_, ofOther := startWire(t, other)
	awaitHint(t, ofA, bus.Hint{Kind: bus.HintLook}) // b listens
	last := bus.Hint{Kind: bus.HintDue, Name: "last"}
	for i := range 500 {
		a.Send(bus.Hint{Kind: bus.HintThread, Name: fmt.Sprint("thread-with-a-long-name-", i)})
	}
	a.Send(last)
	awaitHint(t, ofB, bus.Hint{Kind: bus.HintThread, Name: "thread-with-a-long-name-499"})
	awaitHint(t, ofB, last)
	fromB := bus.Hint{Kind: bus.HintDue, Name: "from b"}
	b.Send(fromB) // the server delivers it behind what a sent before
	if h := <-ofA; h != fromB || len(ofOther) > 0 {
		t.Errorf("a got %v, want only what b sent; %d hints in another schema", h, len(ofOther))
	}

	if n, err := cluster.Terminate(t.Context(), "mailroom"+wireSuffix); err != nil || n != 6 {
		t.Fatalf("%d connections were ended, %v, want two per wire", n, err)
	}
	awaitHint(t, ofB, bus.Hint{Kind: bus.HintLook}) // it listens again
	awaitHint(t, ofA, bus.Hint{Kind: bus.HintLook})
	after := bus.Hint{Kind: bus.HintDue, Name: "after"}
	a.Send(after)
	lost := time.NewTicker(50 * time.Millisecond) // the first one may be lost with the connection
	defer lost.Stop()
	for found := false; !found; {
		select {
		case h := <-ofB:
			found = h == after
		case <-lost.C:
			a.Send(after)
		case <-t.Context().Done():
			t.Fatal("no hint after the connections were lost")
		}
	}
}

// The channel of this wire has no name, so PostgreSQL refuses each LISTEN and NOTIFY, as a standby does.
func TestAWireWhoseStatementsAreRefusedSaysSoOnce(t *testing.T) {
	t.Parallel()
	log := &levels{seen: make(chan slog.Record, 1000)}
	w, err := NewWire(Options{URL: pgtest.Shared(t).URL()}, slog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	w.channel = ""
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx, func(bus.Hint) {}) }()
	warned := map[string]int{}
	for tries := map[string]int{}; min(tries["listener"], tries["sender"]) < 5; {
		r := <-log.seen
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "connection" {
				tries[a.Value.String()]++
				if r.Level == slog.LevelWarn {
					warned[a.Value.String()]++
				}
			}
			return true
		})
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if warned["listener"] != 1 || warned["sender"] != 1 {
		t.Errorf("got warnings %v, want one of each connection", warned)
	}
}

// levels passes on the records of a log.
type levels struct{ seen chan slog.Record }

func (l *levels) Enabled(context.Context, slog.Level) bool      { return true }
func (l *levels) Handle(_ context.Context, r slog.Record) error { l.seen <- r; return nil }
func (l *levels) WithAttrs([]slog.Attr) slog.Handler            { return l }
func (l *levels) WithGroup(string) slog.Handler                 { return l }

func TestThePauseOfAWireGrowsUntilAConnectionWorks(t *testing.T) {
	var p wirePause
	for i, c := range []struct {
		worked bool
		lived  time.Duration
		pause  time.Duration
		first  bool
	}{
		{false, 0, minWirePause, true},
		{false, time.Hour, 2 * minWirePause, false}, // a statement that waits for long, and is refused
		{true, time.Millisecond, 4 * minWirePause, false},
		{false, 0, 8 * minWirePause, false}, {false, 0, 16 * minWirePause, false}, {false, 0, 32 * minWirePause, false},
		{false, 0, maxWirePause, false}, {false, 0, maxWirePause, false},
		{true, maxWirePause + 1, minWirePause, true},
		{true, 0, 2 * minWirePause, false},
	} {
		if pause, first := p.after(c.worked, c.lived); pause != c.pause || first != c.first {
			t.Errorf("connection %d: got pause %s and first %t, want %s and %t", i, pause, first, c.pause, c.first)
		}
	}
}

func TestAWireThatIsBehindSendsOneHint(t *testing.T) {
	w, err := NewWire(Options{URL: "host=/nowhere"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for i := range wirePending + 1 {
		w.Send(bus.Hint{Kind: bus.HintThread, Name: fmt.Sprint(i)})
	}
	w.Send(bus.Hint{Kind: bus.HintDue, Name: "a"}, bus.Hint{Kind: bus.HintDue, Name: "a"})
	if p := w.take(); len(p) != 1 || p[0] != w.sender+"\nlook\ndue a" {
		t.Errorf("payloads %q, want look and one hint", p)
	}
	if p := w.take(); len(p) != 0 {
		t.Errorf("payloads %q after they were taken", p)
	}
}
