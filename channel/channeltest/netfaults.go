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

// RunNetfaults plays all that networks do between a channel and a platform. What make
// gives to through is the address of the platform, as host:port or as a URL; what it
// gets is the address for the channel to connect to. Reconnect.IdleTimeout should be a second or
// more: the network takes its time too.
//
// Whatever happens, all that is said is answered: once if the platform is one that
// tells, and else at least once, with a mark for each that may be there twice. A channel
// over which nothing passes is not called connected, unless nothing has to be heard
// from its platform (Reconnect.IdleTimeout below 0): then replies fail, and it says so.
func RunNetfaults(t *testing.T, make func(t *testing.T, through func(addr string) string) *Platform) {
	for _, play := range []struct {
		name string
		f    func(o *fixture)
	}{
		{"a slow network", withFaults(Netfaults{Latency: 25 * time.Millisecond, Jitter: 20 * time.Millisecond})},
		{"a narrow network", withFaults(Netfaults{Rate: 20})},
		{"a network that sends all in small pieces", withFaults(Netfaults{Slice: 6})},
		{"a network that is down at the start", netDownAtStart},
		{"a network that goes and comes back", netOutage},
		{"half-open connections", halfOpen(Netfaults{DropUpstream: true, DropDownstream: true})},
		{"half-open connections, nothing comes from the platform", halfOpen(Netfaults{DropDownstream: true})},
		{"half-open connections, nothing goes to the platform", halfOpen(Netfaults{DropUpstream: true})},
		{"a connection that is forgotten on the way", blackholed},
		{"connections that are reset", resets},
		{"connections that break off at the beginning of an answer", cutAfter(20)},
		{"connections that break off in the middle of an answer", cutAfter(150)},
		{"a receipt that is lost", receiptLost},
	} {
		t.Run(play.name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			var n *Proxy
			p := make(t, func(addr string) string {
				if n != nil {
					t.Fatal("the platform has a second address: name one")
				}
				to := hostPort(addr)
				if to == "" {
					t.Fatalf("%q has no host and port", addr)
				}
				n = NewProxy(t, to)
				return n.address(addr)
			})
			if n == nil {
				t.Fatal("the platform has named no address to go through")
			}
			o := newFixture(t, p)
			o.proxy = n
			play.f(o)
		})
	}
}

// withFaults plays a network that is bad, and passes everything on.
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

// blackholed has a connection that nobody hears of any more, on a network that is well.
func blackholed(o *fixture) {
	o.startAnswered()
	before := o.State()
	o.proxy.BlackholeOpen()
	if o.p.Reconnect.IdleTimeout > 0 {
		// What meets the lost connection may be an acknowledgement of a platform that is
		// polled: its failure is noted, and the adapter goes on with another connection.
		o.await("the loss is noticed, and it is connected", func() bool {
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
		o.await("something has failed", func() bool { return o.State().LastErrorAt.After(before.LastErrorAt) })
		o.proxy.SetFaults(Netfaults{})
		o.awaitReconnect(text, text)
		texts = append(texts, text)
		o.expectAnswered(texts...)
	}
	o.stop()
}

// cutAfter has a connection bring so many bytes and no more. Where nothing has to be
// heard the beginning of an answer may be all that matters of it.
func cutAfter(after int) func(o *fixture) {
	return func(o *fixture) {
		o.startAnswered()
		o.proxy.SetFaults(Netfaults{CutAfter: after})
		o.postIfHistory("2", "two")
		if o.p.Reconnect.IdleTimeout > 0 {
			o.await("two tries have failed", func() bool { return o.State().Attempts > 1 })
		}
		o.proxy.SetFaults(Netfaults{})
		o.awaitReconnect("2", "two")
		o.expectAnswered("one", "two")
		o.stop()
	}
}

// receiptLost has the platform take a reply, and its receipt not arrive.
func receiptLost(o *fixture) {
	o.hold = make(chan struct{})
	o.start()
	o.awaitCondition(channel.ConditionConnected)
	o.p.Post("1", "one")
	o.await("it is taken", func() bool { return o.runs(mailroom.RunQuery{Agent: Agent}) == 1 })
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

// startAnswered has everything well, and one message answered.
func (o *fixture) startAnswered() {
	o.t.Helper()
	o.start()
	o.awaitCondition(channel.ConditionConnected)
	o.p.Post("1", "one")
	o.expectAnswered("one")
}

// postIfHistory says something while nobody is connected, if that can be read later.
func (o *fixture) postIfHistory(id, text string) {
	if o.p.History {
		o.p.Post(id, text)
	}
}

// awaitReconnect waits until it is connected, and says what could not be said meanwhile.
func (o *fixture) awaitReconnect(id, text string) {
	o.t.Helper()
	o.awaitCondition(channel.ConditionConnected)
	if !o.p.History {
		o.p.Post(id, text)
	}
}

// awaitLeaves waits until a condition is over that is not so any more.
func (o *fixture) awaitLeaves(c channel.Condition) {
	o.t.Helper()
	if o.p.Reconnect.IdleTimeout > 0 {
		o.await("it is not "+string(c), func() bool { return o.State().Condition != c })
	}
}

// awaitFailures waits until so many tries in a row have failed, and wants that it is not called
// connected until then.
func (o *fixture) awaitFailures(tries int) {
	o.t.Helper()
	if o.p.Reconnect.IdleTimeout < 0 {
		before := o.State().LastErrorAt
		o.await("a reply has failed", func() bool { return o.State().LastErrorAt.After(before) })
		return
	}
	o.await("so many tries have failed", func() bool {
		s := o.State()
		if s.Condition == channel.ConditionConnected {
			o.t.Fatalf("it is called connected after %d of %d tries that fail: %+v", s.Attempts, tries, s)
		}
		return s.Attempts >= tries
	})
}

// expectAnswered waits until the platform has taken these texts, in this order, and wants
// that no other is there, and none twice without a mark.
func (o *fixture) expectAnswered(want ...string) {
	o.t.Helper()
	o.await("everything is sent", func() bool { return len(dedup(o.p.Sent())) >= len(want) })
	o.awaitSettled()
	sent := o.p.Sent()
	if got := dedup(sent); !slices.Equal(got, want) {
		o.t.Fatalf("sent %q, want %q", sent, want)
	}
	switch again, marked := len(sent)-len(want), o.countRepeated(); {
	case again > marked:
		o.t.Fatalf("sent %q, and %d are marked", sent, marked)
	case again > 0 && o.p.ExactlyOnce:
		o.t.Fatalf("sent %q, want each once", sent)
	}
}

// dedup are texts without those that were there before.
func dedup(texts []string) (first []string) {
	for _, text := range texts {
		if !slices.Contains(first, text) {
			first = append(first, text)
		}
	}
	return first
}

// countRepeated counts the messages of which a log says that they may be there twice.
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
