package stream_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/store"
	"mailroom/stream"
)

func TestCursorOutsideOfTheStoredLogGetsAGapAndContinues(t *testing.T) {
	for name, c := range map[string]struct {
		after stream.Cursor
		want  *stream.Gap
		next  int64 // seq of the next entry
	}{
		"before the oldest":     {stream.Cursor{}, &stream.Gap{After: 0, Oldest: 3, Last: 6}, 3},
		"one too early":         {stream.Cursor{Seq: 1, Bytes: 2}, &stream.Gap{After: 1, Oldest: 3, Last: 6}, 3},
		"just before":           {stream.Cursor{Seq: 2}, nil, 3},
		"inside":                {stream.Cursor{Seq: 4}, nil, 5},
		"at the end":            {stream.Cursor{Seq: 6}, nil, 7},
		"one too late":          {stream.Cursor{Seq: 7, Bytes: 3}, &stream.Gap{After: 7, Oldest: 3, Last: 6}, 7},
		"of another life of it": {stream.Cursor{Seq: 99}, &stream.Gap{After: 99, Oldest: 3, Last: 6}, 7},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newFixture(t)
			d.submit()
			d.start()
			d.append()
			d.submit()
			d.purge(3)
			d.stream("open")
			d.flush()
			r := d.follow(stream.Query{After: c.after})
			synctest.Wait()
			d.submit()
			synctest.Wait()

			var got *stream.Gap
			if got = r.received()[0].Gap; got != nil {
				wantEqual(t, name+": cursor after the gap", stream.Cursor{Seq: c.next - 1}, r.received()[0].Cursor)
			}
			wantEqual(t, name+": gap", c.want, got)
			wantEqual(t, name+": entries", suffix(d.log(""), c.next-1), r.seqs())
			wantEqual(t, name+": text", "open", r.text(d.open.ID))
			r.hangUp()
		})
	}
}

func TestReaderOvertakenByAPurgeGetsAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := startedFixture(t)
		stuck := make(chan struct{})
		slow := &reader{fixture: d, slow: func() { <-stuck }}
		slow.follow(stream.Query{})
		synctest.Wait()
		for range 300 {
			d.append()
			synctest.Wait()
		}
		d.complete()
		d.submit()
		d.start()
		d.purge(d.last() + 1)
		d.stream("after all")
		d.flush()
		close(stuck)
		synctest.Wait()
		var got []stream.Gap
		for _, e := range slow.received() {
			if e.Gap != nil {
				got = append(got, *e.Gap)
			}
		}
		if len(got) != 1 || got[0].Oldest != d.last()+1 {
			t.Errorf("gaps = %v, want one up to %d", got, d.last()+1)
		}
		wantEqual(t, "text", "after all", slow.text(d.open.ID))
		wantEqual(t, "last entry", d.last(), slow.cursorNow().Seq)
		slow.hangUp()
	})
}

func TestUnknownThreadAndForeignRunAreNotFound(t *testing.T) {
	d := newFixture(t)
	d.submit()
	err := d.store.Update(t.Context(), func(tx store.Tx) error {
		return tx.Write(&store.Changes{
			Threads: []*mailroom.Thread{{ID: "other", FirstSeq: 1}},
			Runs:    []*mailroom.Run{{ID: "foreign", Thread: "other", Status: mailroom.StatusCompleted}},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		q    stream.Query
		want mailroom.Code
	}{
		"unknown thread": {stream.Query{Thread: "nowhere"}, mailroom.CodeNotFound},
		"no thread":      {stream.Query{}, mailroom.CodeNotFound},
		"unknown run":    {stream.Query{Thread: threadID, Run: "unknown"}, mailroom.CodeNotFound},
		"foreign run":    {stream.Query{Thread: threadID, Run: "foreign", Until: stream.UntilSettled}, mailroom.CodeNotFound},
		"wrong until":    {stream.Query{Thread: threadID, Until: "done"}, mailroom.CodeInvalid},
		"negative seq":   {stream.Query{Thread: threadID, After: stream.Cursor{Seq: -1}}, mailroom.CodeInvalid},
		"negative bytes": {stream.Query{Thread: threadID, After: stream.Cursor{Bytes: -1}}, mailroom.CodeInvalid},
	} {
		err := d.streams.Follow(t.Context(), c.q, func(stream.Event) error {
			t.Errorf("%s: Follow emitted an event", name)
			return nil
		})
		if got := mailroom.CodeOf(err); got != c.want {
			t.Errorf("%s: Follow returned %v, want code %s", name, err, c.want)
		}
		if _, err := d.streams.Ended(t.Context(), c.q); mailroom.CodeOf(err) != c.want {
			t.Errorf("%s: Ended returned %v, want code %s", name, err, c.want)
		}
	}
}

func TestThreadThatIsDeletedEndsItsReaders(t *testing.T) {
	for name, again := range map[string]bool{"gone": false, "recreated": true} {
		synctest.Test(t, func(t *testing.T) {
			d := newFixture(t)
			d.submit()
			r := d.follow(stream.Query{})
			synctest.Wait()
			d.drop()
			if again {
				d.submit()
			}
			if err := <-r.ended; mailroom.CodeOf(err) != mailroom.CodeNotFound {
				t.Errorf("%s: Follow returned %v, want code not_found", name, err)
			}
			r.cancel(nil)
		})
	}
}

func TestFollowEndsWithTheErrorOfEmitOrTheCauseOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		d.submit()
		want := errors.New("the pipe is broken")
		q := stream.Query{Thread: threadID}
		if err := d.streams.Follow(t.Context(), q, func(stream.Event) error { return want }); err != want {
			t.Errorf("Follow returned %v, want the error of emit", err)
		}

		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errHangUp)
		if err := d.streams.Follow(ctx, q, func(stream.Event) error { return nil }); err != errHangUp {
			t.Errorf("Follow with an ended context returned %v, want its cause", err)
		}
		if _, err := d.streams.Ended(ctx, q); err != errHangUp {
			t.Errorf("Ended with an ended context returned %v, want its cause", err)
		}

		r := d.follow(stream.Query{})
		<-time.After(10 * time.Second) // while it waits
		r.hangUp()
	})
}

func TestErrorOfTheStoreEndsTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		d.submit()
		r := d.follow(stream.Query{})
		synctest.Wait()
		if err := d.store.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-r.ended; mailroom.CodeOf(err) != mailroom.CodeUnavailable {
			t.Errorf("Follow returned %v, want code unavailable", err)
		}
		r.cancel(nil)
	})
}

func TestReadersOfADeletedThreadNeverSeeTheRecreatedOne(t *testing.T) {
	for name, c := range map[string]struct {
		after stream.Cursor
		busy  int // queued notices when the thread is deleted
	}{
		"idle":            {},
		"idle at the end": {after: stream.Cursor{Seq: 2}},
		"behind":          {busy: 100},
		"lost the first notices of the new thread": {busy: 1000},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newFixture(t)
			d.submit()
			stuck := make(chan struct{})
			r := &reader{fixture: d, slow: func() {
				if c.busy > 0 {
					<-stuck
				}
			}}
			r.follow(stream.Query{After: c.after})
			synctest.Wait()
			for range c.busy {
				d.submit()
			}
			old, runs := d.last(), d.runs
			d.drop()
			d.submit()
			for d.last() < old+5 { // beyond the reader's position
				d.submit()
				if c.busy == 0 {
					synctest.Wait() // the reader has received everything
				}
			}
			close(stuck)
			if err := <-r.ended; mailroom.CodeOf(err) != mailroom.CodeNotFound {
				t.Errorf("%s: Follow returned %v, want code not_found", name, err)
			}
			r.cancel(nil)
			for _, e := range r.received() {
				var n int
				if _, err := fmt.Sscanf(e.Entry.Run, "run%d", &n); err != nil || n > runs {
					t.Errorf("%s: received entry %d of run %s, of the new thread", name, e.Entry.Seq, e.Entry.Run)
				}
			}
		})
	}
}

func TestAReaderThatWasAllowedOneThreadGetsNoOtherUnderItsID(t *testing.T) {
	d := newFixture(t)
	d.submit()
	q := stream.Query{Thread: threadID, Key: d.key(), Until: stream.UntilSettled}
	if _, err := d.streams.Ended(t.Context(), q); err != nil {
		t.Errorf("resume on the same thread: %v", err)
	}
	d.drop()
	d.submit()
	err := d.streams.Follow(t.Context(), q, func(stream.Event) error {
		return errors.New("something was emitted")
	})
	if mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("Follow returned %v, want code not_found", err)
	}
	if _, err := d.streams.Ended(t.Context(), q); mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("Ended returned %v, want code not_found", err)
	}
}
