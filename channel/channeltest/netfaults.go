package channeltest

import (
	"slices"
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat/outbound"
	"mailroom/channel/poll"
	"mailroom/store"
)

// RunNetfaults runs the suite of network faults between a channel and a platform. make passes the
// platform's address, host:port or a URL, to through, and connects the channel to the address
// that through returns. Reconnect.IdleTimeout should be at least a second, because the proxy adds
// latency.
//
// Every message is answered: once if the platform is ExactlyOnce, else at least once, with a log
// entry for each possible duplicate. A channel without traffic is not reported as connected. The
// exception is a platform without heartbeats (Reconnect.IdleTimeout below 0): there, failed
// replies are reported.
func RunNetfaults(t *testing.T, make func(t *testing.T, through func(addr string) string) *Platform) {
	for _, play := range []struct {
		name string
		f    func(s *Server)
	}{
		{"a slow network", withFaults(Netfaults{Latency: 25 * time.Millisecond, Jitter: 20 * time.Millisecond})},
		{"a narrow network", withFaults(Netfaults{Rate: 20})},
		{"a network that fragments data", withFaults(Netfaults{Slice: 6})},
		{"a network that is down at the start", netDownAtStart},
		{"a network outage", netOutage},
		{"half-open connections", halfOpen(Netfaults{DropUpstream: true, DropDownstream: true})},
		{"half-open connections, nothing from the platform", halfOpen(Netfaults{DropDownstream: true})},
		{"half-open connections, nothing to the platform", halfOpen(Netfaults{DropUpstream: true})},
		{"a frozen connection", blackholed},
		{"reset connections", resets},
		{"connections cut at the start of a response", cutAfter(20)},
		{"connections cut in the middle of a response", cutAfter(150)},
		{"a lost receipt", receiptLost},
	} {
		t.Run(play.name, func(t *testing.T) {
			t.Parallel() // the cases mostly wait
			var n *Proxy
			p := make(t, func(addr string) string {
				if n != nil {
					t.Fatal("the test names a second address")
				}
				to := hostPort(addr)
				if to == "" {
					t.Fatalf("%q has no host and port", addr)
				}
				n = NewProxy(t, to)
				return n.address(addr)
			})
			if n == nil {
				t.Fatal("the test names no address")
			}
			s := NewServer(t, p)
			s.proxy = n
			play.f(s)
		})
	}
}

// withFaults runs on a bad network that delivers everything.
func withFaults(w Netfaults) func(s *Server) {
	return func(s *Server) {
		s.proxy.SetFaults(w)
		s.Start()
		s.awaitCondition(channel.ConditionConnected)
		s.post("1", "one")
		s.post("2", "two")
		s.expectAnswered("one", "two")
		s.Stop()
	}
}

func netDownAtStart(s *Server) {
	s.proxy.Down()
	s.Start()
	connects := s.connects()
	if !connects {
		s.post("1", "one")
	}
	s.awaitFailures(2)
	s.proxy.Up()
	s.awaitCondition(channel.ConditionConnected)
	if connects {
		s.post("1", "one")
	}
	s.expectAnswered("one")
	s.Stop()
}

func netOutage(s *Server) {
	s.startAnswered()
	s.proxy.Down()
	s.awaitLeaves(channel.ConditionConnected)
	s.postIfHistory("2", "two")
	s.awaitFailures(1)
	s.proxy.Up()
	s.awaitReconnect("2", "two")
	s.expectAnswered("one", "two")
	s.Stop()
}

func halfOpen(w Netfaults) func(s *Server) {
	return func(s *Server) {
		s.noticeSilence()
		s.startAnswered()
		s.proxy.SetFaults(w)
		s.awaitLeaves(channel.ConditionConnected)
		s.postIfHistory("2", "two")
		s.awaitFailures(2)
		s.proxy.SetFaults(Netfaults{})
		s.awaitReconnect("2", "two")
		s.expectAnswered("one", "two")
		s.Stop()
	}
}

// blackholed freezes open connections on a healthy network.
func blackholed(s *Server) {
	s.noticeSilence()
	s.startAnswered()
	before := s.State()
	s.proxy.BlackholeOpen()
	if s.connects() {
		// On a polled platform an acknowledgement may meet the frozen connection: the adapter
		// reports the failure and continues with another connection.
		s.Await("the failure is noticed", func() bool {
			now := s.State()
			if now.Adapter > before.Adapter || now.LastErrorAt.After(before.LastErrorAt) {
				return true
			}
			s.proxy.BlackholeOpen() // also a connection that was being opened
			return false
		})
		s.awaitCondition(channel.ConditionConnected)
	}
	s.post("2", "two")
	s.expectAnswered("one", "two")
	s.Stop()
}

func resets(s *Server) {
	s.startAnswered()
	texts := []string{"one"}
	for _, text := range []string{"two", "three", "four"} {
		before := s.State()
		s.proxy.SetFaults(Netfaults{Reset: true})
		s.postIfHistory(text, text)
		s.Await("a failure is reported", func() bool { return s.State().LastErrorAt.After(before.LastErrorAt) })
		s.proxy.SetFaults(Netfaults{})
		s.awaitReconnect(text, text)
		texts = append(texts, text)
		s.expectAnswered(texts...)
	}
	s.Stop()
}

// cutAfter closes connections after some bytes from the platform. Without heartbeats, those bytes
// may be a sufficient answer.
func cutAfter(after int) func(s *Server) {
	return func(s *Server) {
		s.startAnswered()
		s.proxy.SetFaults(Netfaults{CutAfter: after})
		s.postIfHistory("2", "two")
		if s.connects() {
			s.Await("two attempts have failed", func() bool { return s.State().Attempts > 1 })
		}
		s.proxy.SetFaults(Netfaults{})
		s.awaitReconnect("2", "two")
		s.expectAnswered("one", "two")
		s.Stop()
	}
}

// receiptLost lets the platform accept a reply and loses the response.
func receiptLost(s *Server) {
	s.noticeSilence()
	s.hold = make(chan struct{})
	s.Start()
	s.awaitCondition(channel.ConditionConnected)
	s.post("1", "one")
	s.Await("the message is submitted", func() bool { return s.runs(store.RunQuery{Agent: Agent}) == 1 })
	s.proxy.SetFaults(Netfaults{DropDownstream: true})
	close(s.hold)
	s.Await("the platform has the reply", func() bool { return len(s.sent()) > 0 })
	s.awaitLeaves(channel.ConditionConnected)
	s.proxy.SetFaults(Netfaults{})
	s.awaitCondition(channel.ConditionConnected)
	s.post("2", "two")
	s.expectAnswered("one", "two")
	s.Stop()
}

// startAnswered starts the server and has one message answered.
func (s *Server) startAnswered() {
	s.t.Helper()
	s.Start()
	s.awaitCondition(channel.ConditionConnected)
	s.post("1", "one")
	s.expectAnswered("one")
}

// postIfHistory posts a message during an outage if the platform has a history.
func (s *Server) postIfHistory(id, text string) {
	if s.p.Events.History {
		s.post(id, text)
	}
}

// awaitReconnect waits until the channel is connected, and then posts what postIfHistory could
// not.
func (s *Server) awaitReconnect(id, text string) {
	s.t.Helper()
	s.awaitCondition(channel.ConditionConnected)
	if !s.p.Events.History {
		s.post(id, text)
	}
}

// awaitLeaves waits until the channel leaves a condition, if the platform has heartbeats.
func (s *Server) awaitLeaves(c channel.Condition) {
	s.t.Helper()
	if s.connects() {
		s.Await("the channel is not "+string(c), func() bool { return s.State().Condition != c })
	}
}

// awaitFailures waits for failed attempts in a row. The channel must not be reported as connected
// before.
func (s *Server) awaitFailures(tries int) {
	s.t.Helper()
	if !s.connects() {
		before := s.State().LastErrorAt
		s.Await("a reply has failed", func() bool { return s.State().LastErrorAt.After(before) })
		return
	}
	s.Await("the attempts have failed", func() bool {
		now := s.State()
		if now.Condition == channel.ConditionConnected {
			s.t.Fatalf("reported as connected after %d of %d failed attempts: %+v", now.Attempts, tries, now)
		}
		return now.Attempts >= tries
	})
}

// expectAnswered waits until the platform has accepted these texts in order. It accepts no other
// text, and a duplicate only with a log entry.
func (s *Server) expectAnswered(want ...string) {
	s.t.Helper()
	s.expectOnce(s.sent, want)
}

// expectAnsweredIn is expectAnswered for a place.
func (s *Server) expectAnsweredIn(place string, want ...string) {
	s.t.Helper()
	s.expectOnce(func() []string { return s.p.texts(place) }, want)
}

func (s *Server) expectOnce(texts func() []string, want []string) {
	s.t.Helper()
	s.Await("every text is sent", func() bool { return len(dedup(texts())) >= len(want) })
	s.AwaitSettled()
	sent := texts()
	if got := dedup(sent); !slices.Equal(got, want) {
		s.t.Fatalf("sent %q, want %q", sent, want)
	}
	switch again, marked := len(sent)-len(want), s.countRepeated(); {
	case again > marked:
		s.t.Fatalf("sent %q with %d log entries of duplicates", sent, marked)
	case again > 0 && s.p.Calls.ExactlyOnce:
		s.t.Fatalf("sent %q, want each once", sent)
	}
}

// dedup removes duplicate texts.
func dedup(texts []string) (first []string) {
	for _, text := range texts {
		if !slices.Contains(first, text) {
			first = append(first, text)
		}
	}
	return first
}

// countRepeated counts the log entries of possible duplicates.
func (s *Server) countRepeated() int { return s.countEntries(outbound.KindRepeated, poll.KindRepeated) }

// countEntries counts the entries of some kinds in all threads.
func (s *Server) countEntries(kinds ...string) (n int) {
	s.t.Helper()
	err := s.store.View(s.t.Context(), func(r store.Reader) error {
		threads, err := r.Threads(store.ThreadQuery{})
		for _, t := range threads {
			found, wrong := r.Entries(store.EntryQuery{Thread: t.ID, Kinds: kinds})
			if wrong != nil {
				return wrong
			}
			n += len(found)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}
