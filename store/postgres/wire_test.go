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
	limit := time.After(30 * time.Second)
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
	b.Send(last)
	awaitHint(t, ofA, last)
	if len(ofA) > 0 || len(ofOther) > 0 {
		t.Errorf("%d own hints, %d hints in another schema", len(ofA), len(ofOther))
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
