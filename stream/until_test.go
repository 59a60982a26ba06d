package stream_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/store"
	"mailroom/stream"
	"mailroom/thread"
)

func TestUntilSettledOfARunEndsWithItsLastEntry(t *testing.T) {
	for name, end := range map[string]func(*fixture){
		"run.completed": (*fixture).complete,
		"run.failed":    (*fixture).fail,
		"run.cancelled": func(d *fixture) {
			run := d.claim.Run
			d.change(head, func(l *thread.State, now time.Time) error {
				_, err := l.Cancel(run, "ann", now)
				return err
			}, run)
			d.fail()
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newFixture(t)
			run := d.submit()
			r := d.follow(stream.Query{Run: run, Until: stream.UntilSettled})
			synctest.Wait()
			d.start()
			d.stream("bye")
			synctest.Wait()
			r.stillFollows()
			d.submit()
			end(d)
			d.start()
			synctest.Wait()
			r.wantEnded()
			r.wantAll(run, 0)
			wantEqual(t, "last event", name, r.kinds()[len(r.received())-1])
			r.check()

			r.follow(stream.Query{Run: run, Until: stream.UntilSettled})
			synctest.Wait()
			r.wantEnded()
			r.wantAll(run, 0)
		})
	}
}

func TestUntilSettledEndsAtTheEntryAlsoIfTheRunIsRetriedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		run := d.submit()
		r := d.follow(stream.Query{Run: run, Until: stream.UntilSettled})
		d.start()
		synctest.Wait()
		var held []bus.Notice
		d.publish = func(n bus.Notice) { held = append(held, n) }
		d.fail()
		d.change(head, func(l *thread.State, now time.Time) error {
			_, err := l.Retry(thread.Retry{Run: run, By: "ann"}, now)
			return err
		}, run)
		for _, n := range held {
			d.bus.Publish(n)
		}
		synctest.Wait()
		r.wantEnded()
		wantEqual(t, "events", []string{"message", "run.queued", "run.started", "run.failed"}, r.kinds())

		r.follow(stream.Query{Run: run, Until: stream.UntilSettled})
		synctest.Wait()
		r.stillFollows() // the run is queued again, according to the log
		r.hangUp()
	})
}

func TestUntilSettledOfAThreadEndsWhenNothingIsLeftToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		d.submit()
		d.submit()
		r := d.follow(stream.Query{Until: stream.UntilSettled})
		synctest.Wait()
		for _, step := range []func(){d.start, d.release, d.start, d.complete, d.start, d.expire, d.start} {
			step()
			synctest.Wait()
			r.stillFollows()
		}
		d.fail()
		synctest.Wait()
		r.wantEnded()
		r.wantAll("", 0)

		r.follow(stream.Query{Until: stream.UntilSettled, After: stream.Cursor{Seq: 2}})
		synctest.Wait()
		r.wantEnded()
		r.wantAll("", 2)
	})
}

func TestUntilSettledWaitsForRunsThatAreForLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		d.change(head, func(l *thread.State, now time.Time) error {
			_, err := l.Submit(thread.Submit{
				Thread: threadID, Run: "later", Agent: agent, NotBefore: now.Add(time.Minute),
				Messages: []thread.NewMessage{{Role: mailroom.RoleUser, Parts: mailroom.Text("hello")}},
			}, thread.Resolved{Agent: agent}, now)
			return err
		})
		r := d.follow(stream.Query{Until: stream.UntilSettled})
		<-time.After(time.Minute)
		synctest.Wait()
		r.stillFollows()
		d.start()
		d.complete()
		synctest.Wait()
		r.wantEnded()
		r.wantAll("", 0)
	})
}

func TestUntilWaitingEndsWhenTheRunIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		run := d.submit()
		readers := []*reader{
			d.follow(stream.Query{Until: stream.UntilWaiting}),
			d.follow(stream.Query{Until: stream.UntilWaiting, Run: run}),
		}
		settled := d.follow(stream.Query{Until: stream.UntilSettled})
		d.start()
		synctest.Wait()
		for _, r := range readers {
			r.stillFollows()
		}
		d.park()
		synctest.Wait()
		for _, r := range readers {
			r.wantEnded()
			r.wantAll("", 0)
		}
		settled.stillFollows()
		settled.hangUp()
	})
}

func TestEndedReportsThatNothingIsLeftToResume(t *testing.T) {
	d := newFixture(t)
	first := d.submit()
	d.start()
	d.complete()
	settled := d.last()
	second := d.submit()

	for name, c := range map[string]struct {
		q    stream.Query
		want bool
	}{
		"no until":  {stream.Query{Run: first, After: stream.Cursor{Seq: settled}}, false},
		"no cursor": {stream.Query{Run: first, Until: stream.UntilSettled}, false},
		"a missing entry": {stream.Query{Run: first, Until: stream.UntilSettled, After: stream.Cursor{Seq: settled - 1}},
			false},
		"a settled run": {stream.Query{Run: first, Until: stream.UntilSettled, After: stream.Cursor{Seq: settled}},
			true},
		"settled counts as parked": {stream.Query{Run: first, Until: stream.UntilWaiting, After: stream.Cursor{Seq: settled}},
			true},
		"later entries of others": {stream.Query{Run: first, Until: stream.UntilSettled,
			After: stream.Cursor{Seq: settled + 1}}, true},
		"a queued run": {stream.Query{Run: second, Until: stream.UntilSettled, After: stream.Cursor{Seq: settled + 2}},
			false},
		"a busy thread": {stream.Query{Until: stream.UntilSettled, After: stream.Cursor{Seq: settled + 2}}, false},
		"a gap to report": {stream.Query{Run: first, Until: stream.UntilSettled, After: stream.Cursor{Seq: settled + 9}},
			false},
	} {
		c.q.Thread = threadID
		got, err := d.streams.Ended(t.Context(), c.q)
		if err != nil || got != c.want {
			t.Errorf("%s: Ended = %v, %v; want %v", name, got, err, c.want)
		}
	}

	d.start()
	d.complete()
	q := stream.Query{Thread: threadID, Until: stream.UntilSettled, After: stream.Cursor{Seq: d.last()}}
	if got, err := d.streams.Ended(t.Context(), q); err != nil || !got {
		t.Errorf("idle thread: Ended = %v, %v; want true", got, err)
	}
}

// viewCount counts the views of a store.
type viewCount struct {
	stream.Viewer
	views int
}

func (c *viewCount) View(ctx context.Context, f func(store.Reader) error) error {
	c.views++
	return c.Viewer.View(ctx, f)
}

// A wait for the end of a run that writes for an hour must not read the store for each piece of its text.
func TestAReaderWithoutTextIsNotWokenForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		counted := &viewCount{Viewer: d.store}
		d.streams = stream.New(counted, d.bus)
		run := d.submit()
		d.start()
		d.stream("stored ")
		d.flush()
		r := d.follow(stream.Query{Run: run, After: stream.Cursor{Seq: 3}, Until: stream.UntilWaiting, NoText: true})
		synctest.Wait()
		before := counted.views
		for range 10 {
			d.stream("piece ")
			d.flush()
			synctest.Wait()
		}
		r.stillFollows()
		if got := counted.views - before; got != 0 {
			t.Errorf("%d views for ten pieces of text, want none", got)
		}
		d.complete()
		synctest.Wait()
		r.wantEnded()
		wantEqual(t, "entries", []string{"message", "run.completed"}, r.kinds())
		wantEqual(t, "events", 2, len(r.received()))
	})
}
