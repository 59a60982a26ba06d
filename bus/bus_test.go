package bus_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"mailroom"
	"mailroom/bus"
	"mailroom/entry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func delta(thread string, offset int) bus.Notice {
	return bus.Notice{Thread: thread, Delta: &entry.Delta{Offset: offset}}
}

// drain returns the offsets of the deltas that wait in s.
func drain(s *bus.Subscription) []int {
	var got []int
	for {
		select {
		case n, open := <-s.C:
			if !open {
				return got
			}
			got = append(got, n.Delta.Offset)
		default:
			return got
		}
	}
}

func TestNoticeGoesToItsThreadAndToReadersOfAll(t *testing.T) {
	b := bus.New()
	one, all, other := b.Subscribe("a", 8), b.Subscribe("", 8), b.Subscribe("b", 8)
	defer one.Close()
	defer all.Close()
	defer other.Close()

	b.Publish(delta("a", 1))
	b.Publish(delta("b", 2))
	b.Publish(delta("a", 3))
	b.Publish(delta("", 4))

	for name, c := range map[string]struct {
		sub  *bus.Subscription
		want []int
	}{
		"a":   {one, []int{1, 3}},
		"b":   {other, []int{2}},
		"all": {all, []int{1, 2, 3, 4}},
	} {
		if diff := cmp.Diff(c.want, drain(c.sub)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPublishNeverBlocksAndReportsALossOnce(t *testing.T) {
	b := bus.New()
	slow, quick := b.Subscribe("a", 2), b.Subscribe("a", 8)
	defer slow.Close()
	defer quick.Close()

	for i := range 5 {
		b.Publish(delta("a", i)) // no reader: a blocking Publish would hang
	}

	if diff := cmp.Diff([]int{0, 1}, drain(slow)); diff != "" {
		t.Errorf("slow reader (-want +got):\n%s", diff)
	}
	if !slow.Lost() {
		t.Error("Lost() = false after three notices were dropped")
	}
	if slow.Lost() {
		t.Error("Lost() = true again without another loss")
	}
	if diff := cmp.Diff([]int{0, 1, 2, 3, 4}, drain(quick)); diff != "" {
		t.Errorf("quick reader (-want +got):\n%s", diff)
	}
	if quick.Lost() {
		t.Error("Lost() = true for the reader that had room")
	}
}

func TestLiveTextTakesNoRoomFromAReaderOfEntries(t *testing.T) {
	b := bus.New()
	s := b.SubscribeEntries("a", 1)
	defer s.Close()

	for i := range 5 {
		b.Publish(delta("a", i))
	}
	b.Publish(bus.Notice{Thread: "a", Entries: []mailroom.Entry{{Seq: 7}}})

	if n := <-s.C; len(n.Entries) != 1 || n.Entries[0].Seq != 7 {
		t.Errorf("got %+v, want the entry", n)
	}
	if s.Lost() {
		t.Error("Lost() = true after only live text was dropped")
	}
}

func TestDepthIsAtLeastOne(t *testing.T) {
	b := bus.New()
	sub, asks := b.Subscribe("a", 0), b.SubscribeFlushRequests(-1)
	defer sub.Close()
	defer asks.Close()

	b.Publish(delta("a", 7))
	b.RequestFlush("a")

	if diff := cmp.Diff([]int{7}, drain(sub)); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
	if got, want := <-asks.C, "a"; got != want {
		t.Errorf("ask = %q, want %q", got, want)
	}
}

func TestClosedSubscriptionGetsNothingAndItsChannelEnds(t *testing.T) {
	b := bus.New()
	s := b.Subscribe("a", 4)
	b.Publish(delta("a", 1))
	s.Close()
	s.Close()
	b.Publish(delta("a", 2))

	var got []int
	for n := range s.C {
		got = append(got, n.Delta.Offset)
	}
	if diff := cmp.Diff([]int{1}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOrderOfEachPublisherIsKeptWhileReadersComeAndGo(t *testing.T) {
	const publishers, each = 8, 200
	b := bus.New()
	all := b.Subscribe("", publishers*each)
	defer all.Close()

	var work sync.WaitGroup
	for p := range publishers {
		work.Go(func() {
			for i := range each {
				b.Publish(bus.Notice{Thread: "a", Flushed: &bus.Flushed{Attempt: p, Upto: i}})
			}
		})
		work.Go(func() {
			for range each {
				s := b.Subscribe("a", 1)
				b.RequestFlush("a")
				s.Close()
			}
		})
	}
	work.Wait()

	next := make([]int, publishers)
	for range publishers * each {
		n := <-all.C
		if got, want := n.Flushed.Upto, next[n.Flushed.Attempt]; got != want {
			t.Fatalf("publisher %d: got notice %d, want %d", n.Flushed.Attempt, got, want)
		}
		next[n.Flushed.Attempt]++
	}
	if all.Lost() {
		t.Error("Lost() = true with room for all")
	}
}

func TestRequestFlushReachesEachSubscriberAndNeverBlocks(t *testing.T) {
	b := bus.New()
	b.RequestFlush("no subscriber")
	one, two := b.SubscribeFlushRequests(2), b.SubscribeFlushRequests(1)
	defer two.Close()

	for _, thread := range []string{"a", "b", "c"} {
		b.RequestFlush(thread)
	}
	one.Close()
	one.Close()
	b.RequestFlush("d")

	var got []string
	for thread := range one.C {
		got = append(got, thread)
	}
	if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" {
		t.Errorf("writer with room for two (-want +got):\n%s", diff)
	}
	if got, want := <-two.C, "a"; got != want {
		t.Errorf("writer with room for one got %q, want %q", got, want)
	}
}

// Thousands of readers wait for threads where nothing happens, each with a buffer for a busy thread.
func TestAnIdleSubscriptionIsSmall(t *testing.T) {
	b := bus.New()
	const n, most = 100, 4 << 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		defer b.Subscribe("a", 256).Close()
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each > most {
		t.Errorf("a subscription takes %d bytes, want at most %d", each, most)
	}
}
