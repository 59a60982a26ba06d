package bus_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/bus"
	"mailroom/entry"
)

// network connects the wires of servers.
type network struct {
	mu    sync.Mutex
	nodes []*node
}

// node is one server: a bus with a relay, which is also its own wire.
type node struct {
	*bus.Bus
	relay *bus.Relay
	net   *network

	mu      sync.Mutex
	receive func(bus.Hint) // nil: not connected
	sent    []bus.Hint
	nudged  []string
}

// connect starts servers, until the test or the returned function of each ends.
func connect(t *testing.T, n int) (nodes []*node, stop []func()) {
	net := &network{}
	for range n {
		s := &node{Bus: bus.New(), net: net}
		s.relay = bus.NewRelay(s.Bus, s, func(agent string) {
			s.nudged = append(s.nudged, agent)
		}, slog.New(slog.DiscardHandler))
		net.mu.Lock()
		net.nodes = append(net.nodes, s)
		net.mu.Unlock()
		nodes = append(nodes, s)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.relay.Run(ctx) }()
		stop = append(stop, sync.OnceFunc(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}))
		t.Cleanup(stop[len(stop)-1])
		synctest.Wait()
	}
	for _, s := range nodes {
		s.take()
	}
	return nodes, stop
}

func (s *node) Send(hints ...bus.Hint) {
	s.mu.Lock()
	s.sent = append(s.sent, hints...)
	s.mu.Unlock()
	s.net.mu.Lock()
	nodes := s.net.nodes
	s.net.mu.Unlock()
	for _, other := range nodes {
		other.mu.Lock()
		receive := other.receive
		other.mu.Unlock()
		if other == s || receive == nil {
			continue
		}
		for _, h := range hints {
			receive(h)
		}
	}
}

func (s *node) Run(ctx context.Context, receive func(bus.Hint)) error {
	s.mu.Lock()
	s.receive = receive
	s.mu.Unlock()
	receive(bus.Hint{Kind: bus.HintLook})
	s.Send(bus.Hint{Kind: bus.HintLook})
	<-ctx.Done()
	s.mu.Lock()
	s.receive = nil
	s.mu.Unlock()
	return nil
}

// take returns what the server has sent since the last call.
func (s *node) take() []bus.Hint {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.sent
	s.sent, s.nudged = nil, nil
	return sent
}

func entries(thread string, all ...mailroom.Entry) bus.Notice {
	return bus.Notice{Thread: thread, Entries: all}
}

func wantHints(t *testing.T, what string, got []bus.Hint, want ...bus.Hint) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func wantRefresh(t *testing.T, what string, s *bus.Subscription, want bool) {
	t.Helper()
	woken := len(s.C) > 0
	for len(s.C) > 0 {
		<-s.C
	}
	if lost := s.Lost(); lost != want || woken != want {
		t.Errorf("%s: lost %t, woken %t, want %t", what, lost, woken, want)
	}
}

func TestAReaderAtAnotherServerIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, _ := connect(t, 2)
		a, b := nodes[0], nodes[1]
		sub := b.Subscribe("t", 4)
		defer sub.Close()
		wantHints(t, "a new reader", b.take(), bus.Hint{Kind: bus.HintFollow, Name: "t"})
		completed := mailroom.Entry{Kind: entry.KindCompleted, Run: "r", Attempt: 1}
		a.Publish(entries("t", completed))
		wantRefresh(t, "entries", sub, true)
		a.Publish(bus.Notice{Thread: "t", Flushed: &bus.Flushed{Run: "r"}})
		wantRefresh(t, "flushed text", sub, true)
		a.take()
		a.Publish(entries("u", completed))
		wantHints(t, "a thread without a reader", a.take())

		requests := a.SubscribeFlushRequests(4)
		defer requests.Close()
		a.Publish(bus.Notice{Thread: "t", Delta: &entry.Delta{Text: "x"}})
		a.Publish(bus.Notice{Thread: "t", Delta: &entry.Delta{Text: "y"}})
		a.Publish(bus.Notice{Thread: "u", Delta: &entry.Delta{Text: "z"}})
		wantHints(t, "live text", a.take())
		if thread := <-requests.C; thread != "t" || len(requests.C) > 0 {
			t.Errorf("flush request for %q and %d more, want one for t", thread, len(requests.C))
		}
	})
}

func TestAReaderOfAllThreadsAtAnotherServerIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, stop := connect(t, 2)
		a, b := nodes[0], nodes[1]
		completed := mailroom.Entry{Kind: entry.KindCompleted, Run: "r", Attempt: 1}
		watcher := b.SubscribeEntries("", 4) // a subscription without a position, which needs no hints
		defer watcher.Close()
		a.Publish(entries("t", completed))
		wantHints(t, "without a reader", append(a.take(), b.take()...))
		sub := b.Subscribe("", 4)
		defer sub.Close()
		wantHints(t, "a new reader", b.take(), bus.Hint{Kind: bus.HintFollowAll})
		a.Publish(entries("t", completed))
		wantHints(t, "entries of any thread", a.take(), bus.Hint{Kind: bus.HintEntries})
		wantRefresh(t, "entries", sub, true)
		wantRefresh(t, "entries of a subscription without a position", watcher, false)
		a.Publish(bus.Notice{Thread: "t", Delta: &entry.Delta{Text: "x"}})
		a.Publish(bus.Notice{Thread: "t", Flushed: &bus.Flushed{Run: "r"}})
		wantHints(t, "text", a.take())
		a.Send(bus.Hint{Kind: bus.HintLook})
		wantRefresh(t, "lost hints", sub, true)
		<-time.After(12 * time.Second)
		b.take()
		<-time.After(25 * time.Second)
		a.Publish(entries("t", completed))
		wantRefresh(t, "a reader that is announced again", sub, true)
		stop[1]()
		<-time.After(65 * time.Second)
		a.take()
		a.Publish(entries("t", completed))
		wantHints(t, "after the end of the other server", a.take())
	})
}

func TestStopsAndSteersReachTheServerOfTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, _ := connect(t, 2)
		a, b := nodes[0], nodes[1]
		worker := b.SubscribeEntries("t", 4)
		defer worker.Close()
		wantHints(t, "a worker", b.take())
		a.Publish(entries("t", mailroom.Entry{Kind: entry.KindStop, Run: "r"}))
		wantRefresh(t, "stop", worker, true)
		a.Publish(entries("t", mailroom.Entry{Kind: entry.KindMessage, Run: "r"}))
		wantRefresh(t, "steer", worker, true)
		a.Publish(entries("t", mailroom.Entry{Kind: entry.KindMessage, Run: "new"},
			mailroom.Entry{Kind: entry.KindQueued, Run: "new"}))
		wantRefresh(t, "submit", worker, false)
		a.take()
		here := a.SubscribeEntries("t", 4)
		defer here.Close()
		a.Publish(entries("t", mailroom.Entry{Kind: entry.KindStop, Run: "r"}))
		wantHints(t, "a stop of a run at the same server", a.take())
	})
}

func TestDueRunsAndLostHintsNudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, _ := connect(t, 2)
		a, b := nodes[0], nodes[1]
		sub := b.Subscribe("t", 4)
		defer sub.Close()
		a.relay.Due("echo")
		a.Send(bus.Hint{Kind: bus.HintLook})
		if diff := cmp.Diff([]string{"echo", ""}, b.nudged); diff != "" {
			t.Errorf("nudges (-want +got):\n%s", diff)
		}
		wantRefresh(t, "lost hints", sub, true)
		wantHints(t, "answer to lost hints", b.take(), bus.Hint{Kind: bus.HintFollow, Name: "t"},
			bus.Hint{Kind: bus.HintHere}, bus.Hint{Kind: bus.HintFollow, Name: "t"})
	})
}

// TestAServerAloneSendsAnnouncementsOnly begins alone, and with a second server that ends.
func TestAServerAloneSendsAnnouncementsOnly(t *testing.T) {
	for _, n := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			nodes, stop := connect(t, n)
			a := nodes[0]
			if n == 2 {
				sub := nodes[1].Subscribe("t", 4)
				defer sub.Close()
				stop[1]()
				<-time.After(65 * time.Second)
				a.take()
			}
			sub := a.Subscribe("t", 4)
			defer sub.Close()
			a.Publish(entries("t", mailroom.Entry{Kind: entry.KindStop, Run: "r"}))
			a.relay.Due("echo")
			wantHints(t, "alone", a.take())
			<-time.After(12 * time.Second)
			wantHints(t, "announcement", a.take(), bus.Hint{Kind: bus.HintHere})
		})
	}
}
