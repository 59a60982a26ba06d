package stream_test

import (
	"testing"
	"testing/synctest"
	"time"

	"mailroom/stream"
)

const words = "añb€c😀d"

// conversation creates a log with every kind of entry that affects text, and an open message that is
// partly flushed.
func conversation(d *fixture) {
	d.submit()
	d.start()
	d.stream("one ")
	d.submit() // during a message
	d.stream("two")
	d.append()
	d.stream("lost €")
	d.flush()
	d.stream("never kept")
	d.expire()
	d.start()
	d.stream("again")
	d.release()
	d.start()
	d.stream("and done")
	d.complete()
	d.start()
	d.stream("step")
	d.append()
	for _, c := range words {
		d.stream(string(c))
		if c == '€' {
			d.flush()
		}
	}
}

func TestResumeAfterEveryEntryGivesExactlyTheSuffix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		conversation(d)
		open := d.open.ID
		last := d.last()
		for seq := int64(0); seq <= last; seq++ {
			r := d.follow(stream.Query{After: stream.Cursor{Seq: seq}})
			synctest.Wait()
			r.wantAll("", seq)
			wantEqual(t, "flushed text", "añb€", r.text(open))
			r.check()
			r.hangUp()
		}
	})
}

func TestResumeInsideAMessageGivesExactlyTheRest(t *testing.T) {
	for n := 0; n <= len(words); n++ {
		synctest.Test(t, func(t *testing.T) {
			d := newFixture(t)
			conversation(d)
			open := d.writer()
			at := stream.Cursor{Seq: d.last(), Bytes: n}
			r := d.follow(stream.Query{After: at})
			synctest.Wait()
			d.stream(" more") // live text behind a gap, unless the reader has everything
			d.flush()
			d.submit()
			d.stream(" …")
			synctest.Wait()

			start := n
			for start > 0 && start < len(words) && words[start]&0xc0 == 0x80 {
				start-- // back to the start of the incomplete code point
			}
			wantEqual(t, "text after "+at.String(), d.written[open][start:], r.text(open.message))
			r.wantAll("", at.Seq)
			r.check()
			r.hangUp()
		})
	}
}

func TestBytesOfACursorDoNotCountOnceAnEntryFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		conversation(d)
		open := d.writer()
		at := stream.Cursor{Seq: d.last(), Bytes: 4}
		d.flush()
		d.submit()
		r := d.follow(stream.Query{After: at})
		synctest.Wait()
		wantEqual(t, "events", []string{"message", "run.queued", "+" + words}, r.kinds())
		r.hangUp()

		d.expire()
		d.start()
		d.stream("again")
		r = d.follow(stream.Query{After: at})
		d.flush()
		synctest.Wait()
		wantEqual(t, "text of the old attempt", "", r.text(open.message))
		wantEqual(t, "text of the new attempt", "again", r.text(d.open.ID))
		r.check()
		r.hangUp()
	})
}

func TestEveryCursorOfAConnectionLeadsToTheSameEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		d.submit()
		d.start()
		whole := d.follow(stream.Query{})
		for _, c := range words {
			d.stream(string(c))
			synctest.Wait()
			if c == 'b' || c == '😀' {
				d.submit()
			}
		}
		d.flush()
		synctest.Wait()
		want := whole.seqs()
		for i, e := range whole.received() {
			r := d.follow(stream.Query{After: e.Cursor})
			synctest.Wait()
			r.check()
			before := &reader{events: whole.received()[:i+1]}
			wantEqual(t, "entries before and after "+e.Cursor.String(), want, append(before.seqs(), r.seqs()...))
			got := words[:0]
			if len(r.seqs()) == 0 {
				got = words[:e.Cursor.Bytes]
			}
			wantEqual(t, "text at "+e.Cursor.String(), words, got+r.text(d.open.ID))
			r.hangUp()
		}
		whole.check()
		whole.hangUp()
	})
}

func TestLongLogsAreReadInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		first := d.submit()
		d.start()
		for range 150 {
			d.append()
		}
		d.submit()
		d.stream("open")
		d.flush()
		for _, run := range []string{"", first} {
			for _, after := range []int64{0, 1, 99, 100, 101, 152, 153, 154} {
				r := d.follow(stream.Query{Run: run, After: stream.Cursor{Seq: after}})
				synctest.Wait()
				r.wantAll(run, after)
				wantEqual(t, "text", "open", r.text(d.open.ID))
				r.check()
				r.hangUp()
			}
		}
	})
}

func TestTenReadersSeeTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		d.submit()
		readers := make([]*reader, 10)
		for i := range readers {
			readers[i] = d.follow(stream.Query{})
		}
		synctest.Wait()
		conversation(d)
		d.flush()
		<-time.After(3 * time.Second)
		synctest.Wait()
		for _, r := range readers {
			r.check()
			r.wantAll("", 0)
			wantEqual(t, "open text", words, r.text(d.open.ID))
			wantEqual(t, "events", readers[0].kinds(), r.kinds())
		}
		for _, r := range readers {
			r.hangUp()
		}
	})
}
