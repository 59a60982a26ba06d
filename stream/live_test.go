package stream_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/bus"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/stream"
)

// pollTime is long enough for a reader to poll the store once.
const pollTime = 1100 * time.Millisecond

// startedFixture returns a fixture with a started run.
func startedFixture(t *testing.T) *fixture {
	d := newFixture(t)
	d.submit()
	d.start()
	return d
}

// unpublished calls f without publishing its changes.
func (d *fixture) unpublished(f func()) {
	tell := d.publish
	d.publish = func(bus.Notice) {}
	f()
	d.publish = tell
}

func TestLiveTextArrivesAtOnceAndEndsWithItsEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := startedFixture(t)
		r := d.follow(stream.Query{After: stream.Cursor{Seq: d.last()}})
		synctest.Wait()
		d.stream("he")
		synctest.Wait()
		d.stream("llo")
		late := entry.Delta{
			Run: d.claim.Run, Attempt: d.claim.Attempt, Message: d.open.ID, Offset: 5, Channel: "text", Text: " late",
		}
		d.append()
		d.publish(bus.Notice{Thread: threadID, Delta: &late})
		d.stream("next")
		synctest.Wait()
		wantEqual(t, "events", []string{"+he", "+llo", "step", "message", "+next"}, r.kinds())
		r.check()
		r.hangUp()
	})
}

// Thinking has offsets of its own and is in no store: it neither moves the position of a reader nor is it missed.
func TestThinkingLeavesThePositionInTheMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := startedFixture(t)
		var got []string
		ctx, hangUp := context.WithCancel(t.Context())
		over := make(chan error, 1)
		after := stream.Cursor{Seq: d.last()}
		go func() {
			over <- d.streams.Follow(ctx, stream.Query{Thread: threadID, After: after}, func(e stream.Event) error {
				if e.Delta != nil {
					got = append(got, e.Delta.Channel+" "+e.Delta.Text+" "+strings.TrimPrefix(e.Cursor.String(), after.String()))
				}
				return nil
			})
		}()
		synctest.Wait()
		think := func(offset int, text string) {
			d.publish(bus.Notice{Thread: threadID, Delta: &entry.Delta{
				Run: d.claim.Run, Attempt: d.claim.Attempt, Message: d.open.ID, Offset: offset, Channel: entry.ChannelThinking,
				Text: text,
			}})
			synctest.Wait()
		}
		think(0, "hm")
		d.stream("he")
		synctest.Wait()
		think(90, "ah")
		d.stream("llo")
		synctest.Wait()
		hangUp()
		<-over
		wantEqual(t, "events", []string{"thinking hm ", "text he :2", "thinking ah :2", "text llo :5"}, got)
	})
}

// Thinking that is written before a reader follows has no other way to it: no store has it.
func TestAReaderMissesNoThinkingOnceItIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := startedFixture(t)
		r := d.streams.Open(stream.Query{Thread: threadID, After: stream.Cursor{Seq: d.last()}})
		defer r.Close()
		d.publish(bus.Notice{Thread: threadID, Delta: &entry.Delta{
			Run: d.claim.Run, Attempt: d.claim.Attempt, Message: d.open.ID, Channel: entry.ChannelThinking, Text: "hm",
		}})
		read := errors.New("read")
		err := r.Follow(t.Context(), func(e stream.Event) error {
			if e.Delta == nil || e.Delta.Text != "hm" {
				t.Errorf("the first event is %+v", e)
			}
			return read
		})
		if err != read {
			t.Error(err)
		}
	})
}

func TestReaderIgnoresLateTextOfAMessageThatItHas(t *testing.T) {
	for _, brought := range []int64{10, 60, 143} { // some of the entries, or all
		synctest.Test(t, func(t *testing.T) {
			d := startedFixture(t)
			var late []entry.Delta
			for range 70 { // more than one page of messages
				d.stream("old")
				late = append(late, entry.Delta{
					Run: d.claim.Run, Attempt: d.claim.Attempt, Message: d.open.ID, Channel: "text", Text: "old",
				})
				d.append()
			}
			r := d.follow(stream.Query{After: stream.Cursor{Seq: brought}})
			synctest.Wait()
			for _, delta := range late {
				d.publish(bus.Notice{Thread: threadID, Delta: &delta})
				synctest.Wait()
			}
			d.stream("new")
			synctest.Wait()
			r.wantAll("", brought)
			wantEqual(t, "text", []string{"+new"}, r.kinds()[len(r.seqs()):])
			r.check()
			r.hangUp()
		})
	}
}

func TestANewAttemptRestartsTheTextAndDropsTheOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := startedFixture(t)
		r := d.follow(stream.Query{After: stream.Cursor{Seq: d.last()}})
		synctest.Wait()
		d.stream("first try")
		synctest.Wait()
		zombie := entry.Delta{
			Run: d.claim.Run, Attempt: d.claim.Attempt, Message: d.open.ID, Offset: 9, Channel: "text", Text: "!",
		}
		d.expire()
		d.publish(bus.Notice{Thread: threadID, Delta: &zombie})
		d.start()
		d.publish(bus.Notice{Thread: threadID, Delta: &zombie})
		d.stream("second")
		d.publish(bus.Notice{Thread: threadID, Delta: &zombie})
		d.stream(" try")
		synctest.Wait()
		wantEqual(t, "events",
			[]string{"+first try", "run.rescheduled", "run.started", "+second", "+ try"}, r.kinds())
		r.check()
		r.hangUp()
	})
}

func TestLateReaderRequestsTheEarlierText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := startedFixture(t)
		asks := d.bus.SubscribeFlushRequests(8)
		defer asks.Close()
		d.stream("zero ")
		d.flush()
		d.stream("one ")
		r := d.follow(stream.Query{After: stream.Cursor{Seq: d.last()}})
		synctest.Wait()
		wantEqual(t, "before any live text", []string{"+zero "}, r.kinds())
		wantEqual(t, "asks", 0, len(asks.C))

		d.stream("two ")
		d.stream("three ")
		synctest.Wait()
		wantEqual(t, "held", []string{"+zero "}, r.kinds())
		wantEqual(t, "asks, once per hole", 1, len(asks.C))
		wantEqual(t, "asked for", threadID, <-asks.C)

		<-time.After(1500 * time.Millisecond)
		synctest.Wait()
		wantEqual(t, "asks again each second", 1, len(asks.C))

		d.unpublished(func() { d.stream("lost ") })
		d.stream("four")
		d.flush()
		synctest.Wait()
		wantEqual(t, "text", "zero one two three lost four", r.text(d.open.ID))
		r.check()
		r.hangUp()
	})
}

func TestGapInLiveTextIsFilledByTheNextFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := startedFixture(t)
		r := d.follow(stream.Query{After: stream.Cursor{Seq: d.last()}})
		synctest.Wait()
		d.stream("a")
		synctest.Wait()
		d.unpublished(func() { d.stream("b") })
		d.stream("c")
		synctest.Wait()
		d.unpublished(d.flush)
		d.stream("d")
		synctest.Wait()
		wantEqual(t, "before the next look", "a", r.text(d.open.ID))
		<-time.After(pollTime)
		synctest.Wait()
		wantEqual(t, "after the next look", "abcd", r.text(d.open.ID))
		r.check()
		r.hangUp()
	})
}

func TestWithoutAnyNoticeEverythingComesWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := startedFixture(t)
		r := d.follow(stream.Query{})
		synctest.Wait()
		d.publish = func(bus.Notice) {}
		d.stream("kept")
		d.flush()
		d.submit()
		<-time.After(pollTime)
		synctest.Wait()
		r.wantAll("", 0)
		wantEqual(t, "text", "kept", r.text(d.open.ID))
		d.complete()
		<-time.After(pollTime)
		synctest.Wait()
		r.wantAll("", 0)
		r.check()
		r.hangUp()
	})
}

func TestFollowerInAnotherProcessGetsTheTextFlushByFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := startedFixture(t)
		r := d.follow(stream.Query{After: stream.Cursor{Seq: d.last()}})
		synctest.Wait()
		for _, text := range []string{"one ", "two ", "three"} {
			d.unpublished(func() { d.stream(text) }) // its live text is not published
			d.flush()
			synctest.Wait()
		}
		wantEqual(t, "events", []string{"+one ", "+two ", "+three"}, r.kinds())
		r.check()
		r.hangUp()
	})
}

func TestRunFilterGivesOnlyThatRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		first := d.submit()
		second := d.submit()
		one, two := d.follow(stream.Query{Run: first}), d.follow(stream.Query{Run: second})
		synctest.Wait()
		d.start()
		d.stream("mine")
		synctest.Wait()
		d.submit()
		d.complete()
		d.start()
		d.submit()
		d.stream("yours")
		d.flush()
		synctest.Wait()
		wantEqual(t, "events of the first", []string{
			"message", "run.queued", "run.started", "+mine", "message", "run.completed",
		}, one.kinds())
		wantEqual(t, "events of the second", []string{"message", "run.queued", "run.started", "+yours"}, two.kinds())
		wantEqual(t, "cursor, in seqs of the thread", stream.Cursor{Seq: d.last(), Bytes: 5}, two.cursorNow())
		one.wantAll(first, 0)
		two.wantAll(second, 0)
		one.check()
		two.check()
		one.hangUp()
		two.hangUp()

		two.follow(stream.Query{Run: second})
		synctest.Wait()
		wantEqual(t, "cursor after a replay", stream.Cursor{Seq: d.last(), Bytes: 5}, two.cursorNow())
		two.hangUp()

		two.follow(stream.Query{Run: second, After: stream.Cursor{Seq: d.last(), Bytes: 2}})
		one.follow(stream.Query{Run: first})
		synctest.Wait()
		wantEqual(t, "resumed", []string{"+urs"}, two.kinds())
		wantEqual(t, "replayed", []string{"message", "run.queued", "run.started", "message", "run.completed"}, one.kinds())
		one.hangUp()
		two.hangUp()
	})
}

func TestSlowReaderNeitherBlocksThePublisherNorMissesAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := startedFixture(t)
		stuck := make(chan struct{})
		slow := &reader{fixture: d, slow: func() { <-stuck }}
		slow.follow(stream.Query{})
		quick := d.follow(stream.Query{})
		synctest.Wait()

		for i := range 600 { // far more than the buffers hold
			d.stream("x€")
			switch {
			case i == 250:
				d.append()
			case i%100 == 0:
				d.submit()
			}
			synctest.Wait()
		}
		d.flush()
		synctest.Wait()
		wantEqual(t, "quick reader's text", strings.Repeat("x€", 349), quick.text(d.open.ID))

		close(stuck)
		synctest.Wait()
		for _, r := range []*reader{slow, quick} {
			r.wantAll("", 0)
			r.check()
		}
		wantEqual(t, "slow reader's text", strings.Repeat("x€", 349), slow.text(d.open.ID))
		slow.hangUp()
		quick.hangUp()
	})
}

func TestHeldTextIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := startedFixture(t)
		d.unpublished(func() { d.stream("hidden ") })
		r := d.follow(stream.Query{After: stream.Cursor{Seq: d.last()}})
		synctest.Wait()
		for range 3000 {
			d.stream("x")
			synctest.Wait()
		}
		d.flush()
		synctest.Wait()
		wantEqual(t, "text", d.open.Text, r.text(d.open.ID))
		r.check()
		r.hangUp()
	})
}

func TestMissedBeginningThatIsFlushedComesWithTheNextLiveText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		d.submit()
		r := d.follow(stream.Query{After: stream.Cursor{Seq: d.last()}})
		synctest.Wait()
		d.start()
		synctest.Wait()
		d.unpublished(func() { d.stream("missed "); d.flush() })
		d.stream("live")
		synctest.Wait()
		wantEqual(t, "events", []string{"run.started", "+missed ", "+live"}, r.kinds())
		r.hangUp()
	})
}

// counter counts the views of a store.
type counter struct {
	stream.Viewer
	views atomic.Int64
}

func (c *counter) View(ctx context.Context, f func(store.Reader) error) error {
	c.views.Add(1)
	return c.Viewer.View(ctx, f)
}

func TestIrrelevantNoticesCauseNoReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		views := &counter{Viewer: d.store}
		d.streams = stream.New(views, d.bus)
		first := d.submit()
		all, one := d.follow(stream.Query{}), d.follow(stream.Query{Run: first, Until: stream.UntilSettled})
		synctest.Wait()
		d.start()
		zombie := entry.Delta{Run: first, Attempt: d.claim.Attempt, Message: "zombie", Channel: "text", Text: "!"}
		late := []bus.Notice{
			{Thread: threadID, Delta: &zombie},
			{Thread: threadID, Flushed: &bus.Flushed{Run: first, Attempt: zombie.Attempt, Message: "zombie", Upto: 9}},
		}
		d.release()
		d.start()
		d.release()
		d.start()
		d.stream("text of its own")
		synctest.Wait()
		before := views.views.Load()
		for range 100 {
			d.publish(late[0])
			d.publish(late[1])
			d.submit() // of other runs, which one of the two streams contains
			d.stream("and more")
			synctest.Wait()
		}
		wantEqual(t, "views", 0, views.views.Load()-before)

		d.release()
		synctest.Wait()
		for _, n := range late {
			before = views.views.Load()
			for range 100 {
				d.publish(n)
				synctest.Wait()
			}
			if got := views.views.Load() - before; got > 2 {
				t.Errorf("%d views without a writer, want at most one for each reader", got)
			}
			d.start()
			d.release()
			synctest.Wait()
		}
		all.hangUp()
		one.hangUp()
	})
}
