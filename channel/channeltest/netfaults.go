package channeltest

import (
	"slices"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/poll"
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
		f    func(o *fixture)
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
			o := newFixture(t, p)
			o.proxy = n
			play.f(o)
		})
	}
}

// withFaults runs on a bad network that delivers everything.
func withFaults(w Netfaults) func(o *fixture) {
	return func(o *fixture) {
		o.proxy.SetFaults(w)
		o.start()
		o.awaitCondition(channel.ConditionConnected)
		o.p.Post("1", "one")
		o.p.Post("2", "two")
		o.expectAnswered("one", "two")
		o.stop()
	}
}

func netDownAtStart(o *fixture) {
	o.proxy.Down()
	o.start()
	connects := o.p.Reconnect.IdleTimeout > 0
	if !connects {
		o.p.Post("1", "one")
	}
	o.awaitFailures(2)
	o.proxy.Up()
	o.awaitCondition(channel.ConditionConnected)
	if connects {
		o.p.Post("1", "one")
	}
	o.expectAnswered("one")
	o.stop()
}

func netOutage(o *fixture) {
	o.startAnswered()
	o.proxy.Down()
	o.awaitLeaves(channel.ConditionConnected)
	o.postIfHistory("2", "two")
	o.awaitFailures(1)
	o.proxy.Up()
	o.awaitReconnect("2", "two")
	o.expectAnswered("one", "two")
	o.stop()
}

func halfOpen(w Netfaults) func(o *fixture) {
	return func(o *fixture) {
		o.startAnswered()
		o.proxy.SetFaults(w)
		o.awaitLeaves(channel.ConditionConnected)
		o.postIfHistory("2", "two")
		o.awaitFailures(2)
		o.proxy.SetFaults(Netfaults{})
		o.awaitReconnect("2", "two")
		o.expectAnswered("one", "two")
		o.stop()
	}
}

// blackholed freezes open connections on a healthy network.
func blackholed(o *fixture) {
	o.startAnswered()
	before := o.State()
	o.proxy.BlackholeOpen()
	if o.p.Reconnect.IdleTimeout > 0 {
		// On a polled platform an acknowledgement may meet the frozen connection: the adapter
		// reports the failure and continues with another connection.
		o.await("the failure is noticed and the channel is connected", func() bool {
			s := o.State()
			return s.Condition == channel.ConditionConnected && (s.Adapter > before.Adapter || s.LastErrorAt.After(before.LastErrorAt))
		})
	}
	o.p.Post("2", "two")
	o.expectAnswered("one", "two")
	o.stop()
}

func resets(o *fixture) {
	o.startAnswered()
	texts := []string{"one"}
	for _, text := range []string{"two", "three", "four"} {
		before := o.State()
		o.proxy.SetFaults(Netfaults{Reset: true})
		o.postIfHistory(text, text)
		o.await("a failure is reported", func() bool { return o.State().LastErrorAt.After(before.LastErrorAt) })
		o.proxy.SetFaults(Netfaults{})
		o.awaitReconnect(text, text)
		texts = append(texts, text)
		o.expectAnswered(texts...)
	}
	o.stop()
}

// cutAfter closes connections after some bytes from the platform. Without heartbeats, those bytes
// may be a sufficient answer.
func cutAfter(after int) func(o *fixture) {
	return func(o *fixture) {
		o.startAnswered()
		o.proxy.SetFaults(Netfaults{CutAfter: after})
		o.postIfHistory("2", "two")
		if o.p.Reconnect.IdleTimeout > 0 {
			o.await("two attempts have failed", func() bool { return o.State().Attempts > 1 })
		}
		o.proxy.SetFaults(Netfaults{})
		o.awaitReconnect("2", "two")
		o.expectAnswered("one", "two")
		o.stop()
	}
}

// receiptLost lets the platform accept a reply and loses the response.
func receiptLost(o *fixture) {
	o.hold = make(chan struct{})
	o.start()
	o.awaitCondition(channel.ConditionConnected)
	o.p.Post("1", "one")
	o.await("the message is submitted", func() bool { return o.runs(mailroom.RunQuery{Agent: Agent}) == 1 })
	o.proxy.SetFaults(Netfaults{DropDownstream: true})
	close(o.hold)
	o.await("the platform has the reply", func() bool { return len(o.p.Sent()) > 0 })
	o.awaitLeaves(channel.ConditionConnected)
	o.proxy.SetFaults(Netfaults{})
	o.awaitCondition(channel.ConditionConnected)
	o.p.Post("2", "two")
	o.expectAnswered("one", "two")
	o.stop()
}

// startAnswered starts the server and has one message answered.
func (o *fixture) startAnswered() {
	o.t.Helper()
	o.start()
	o.awaitCondition(channel.ConditionConnected)
	o.p.Post("1", "one")
	o.expectAnswered("one")
}

// postIfHistory posts a message during an outage if the platform has a history.
func (o *fixture) postIfHistory(id, text string) {
	if o.p.History {
		o.p.Post(id, text)
	}
}

// awaitReconnect waits until the channel is connected, and then posts what postIfHistory could
// not.
func (o *fixture) awaitReconnect(id, text string) {
	o.t.Helper()
	o.awaitCondition(channel.ConditionConnected)
	if !o.p.History {
		o.p.Post(id, text)
	}
}

// awaitLeaves waits until the channel leaves a condition, if the platform has heartbeats.
func (o *fixture) awaitLeaves(c channel.Condition) {
	o.t.Helper()
	if o.p.Reconnect.IdleTimeout > 0 {
		o.await("the channel is not "+string(c), func() bool { return o.State().Condition != c })
	}
}

// awaitFailures waits for failed attempts in a row. The channel must not be reported as connected
// before.
func (o *fixture) awaitFailures(tries int) {
	o.t.Helper()
	if o.p.Reconnect.IdleTimeout < 0 {
		before := o.State().LastErrorAt
		o.await("a reply has failed", func() bool { return o.State().LastErrorAt.After(before) })
		return
	}
	o.await("the attempts have failed", func() bool {
		s := o.State()
		if s.Condition == channel.ConditionConnected {
			o.t.Fatalf("reported as connected after %d of %d failed attempts: %+v", s.Attempts, tries, s)
		}
		return s.Attempts >= tries
	})
}

// expectAnswered waits until the platform has accepted these texts in order. It accepts no other
// text, and a duplicate only with a log entry.
func (o *fixture) expectAnswered(want ...string) {
	o.t.Helper()
	o.await("every text is sent", func() bool { return len(dedup(o.p.Sent())) >= len(want) })
	o.awaitSettled()
	sent := o.p.Sent()
	if got := dedup(sent); !slices.Equal(got, want) {
		o.t.Fatalf("sent %q, want %q", sent, want)
	}
	switch again, marked := len(sent)-len(want), o.countRepeated(); {
	case again > marked:
		o.t.Fatalf("sent %q with %d log entries of duplicates", sent, marked)
	case again > 0 && o.p.ExactlyOnce:
		o.t.Fatalf("sent %q, want each once", sent)
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
func (o *fixture) countRepeated() (n int) {
	o.t.Helper()
	err := o.store.View(o.t.Context(), func(r mailroom.Reader) error {
		threads, err := r.Threads(mailroom.ThreadQuery{})
		for _, t := range threads {
			found, wrong := r.Entries(mailroom.EntryQuery{Thread: t.ID, Kinds: []string{chat.KindRepeated, poll.KindRepeated}})
			if wrong != nil {
				return wrong
			}
			n += len(found)
		}
		return err
	})
	if err != nil {
		o.t.Fatal(err)
	}
	return n
}
