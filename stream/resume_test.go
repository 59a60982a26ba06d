package stream_test

import (
	"testing"
	"testing/synctest"
	"time"

	"mailroom/stream"
)

const words = "añb€c😀d"

// talk makes a log with every kind of entry that text depends on, and leaves a
// message open of which a part is flushed.
func talk(d *desk) {
	d.submit()
	d.start()
	d.say("one ")
	d.submit() // in the middle of a message
	d.say("two")
	d.append()
	d.say("lost €")
	d.flush()
	d.say("never kept")
	d.expire()
	d.start()
	d.say("again")
	d.release()
	d.start()
	d.say("and done")
	d.complete()
	d.start()
	d.say("step")
	d.append()
	for _, c := range words {
		d.say(string(c))
		if c == '€' {
			d.flush()
		}
	}
}

func TestResumeAfterEveryEntryGivesExactlyTheSuffix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		talk(d)
		open := d.open.ID
		last := d.last()
		for seq := int64(0); seq <= last; seq++ {
			r := d.follow(stream.Query{After: stream.Cursor{Seq: seq}})
			synctest.Wait()
			r.gotAll("", seq)
			wants(t, "flushed text", "añb€", r.text(open))
			r.check()
			r.hangUp()
		}
	})
}

func TestResumeInsideAMessageGivesExactlyTheRest(t *testing.T) {
	for n := 0; n <= len(words); n++ {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			talk(d)
			open := d.writer()
			at := stream.Cursor{Seq: d.last(), Bytes: n}
			r := d.follow(stream.Query{After: at})
			synctest.Wait()
			d.say(" more") // live text beyond a hole, unless the reader has it all
			d.flush()
			d.submit()
			d.say(" …")
			synctest.Wait()

			start := n
			for start > 0 && start < len(words) && words[start]&0xc0 == 0x80 {
				start-- // back to the code point that the reader has half of
			}
			wants(t, "text after "+at.String(), d.truth[open][start:], r.text(open.message))
			r.gotAll("", at.Seq)
			r.check()
			r.hangUp()
		})
	}
}

func TestBytesOfACursorDoNotCountOnceAnEntryFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		talk(d)
		open := d.writer()
		at := stream.Cursor{Seq: d.last(), Bytes: 4}
		d.flush()
		d.submit()
		r := d.follow(stream.Query{After: at})
		synctest.Wait()
		wants(t, "events", []string{"message", "run.queued", "+" + words}, r.kinds())
		r.hangUp()

		d.expire()
		d.start()
		d.say("anew")
		r = d.follow(stream.Query{After: at})
		d.flush()
		synctest.Wait()
		wants(t, "text of the old attempt", "", r.text(open.message))
		wants(t, "text of the new attempt", "anew", r.text(d.open.ID))
		r.check()
		r.hangUp()
	})
}

func TestEveryCursorOfAConnectionLeadsToTheSameEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.submit()
		d.start()
		whole := d.follow(stream.Query{})
		for _, c := range words {
			d.say(string(c))
			synctest.Wait()
			if c == 'b' || c == '😀' {
				d.submit()
			}
		}
		d.flush()
		synctest.Wait()
		want := whole.seqs()
		for i, e := range whole.got() {
			r := d.follow(stream.Query{After: e.Cursor})
			synctest.Wait()
			r.check()
			before := &reader{events: whole.got()[:i+1]}
			wants(t, "entries before and after "+e.Cursor.String(), want, append(before.seqs(), r.seqs()...))
			got := words[:0]
			if len(r.seqs()) == 0 {
				got = words[:e.Cursor.Bytes]
			}
			wants(t, "text at "+e.Cursor.String(), words, got+r.text(d.open.ID))
			r.hangUp()
		}
		whole.check()
		whole.hangUp()
	})
}

func TestLongLogsAreReadInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		first := d.submit()
		d.start()
		for range 150 {
			d.append()
		}
		d.submit()
		d.say("open")
		d.flush()
		for _, run := range []string{"", first} {
			for _, after := range []int64{0, 1, 99, 100, 101, 152, 153, 154} {
				r := d.follow(stream.Query{Run: run, After: stream.Cursor{Seq: after}})
				synctest.Wait()
				r.gotAll(run, after)
				wants(t, "text", "open", r.text(d.open.ID))
				r.check()
				r.hangUp()
			}
		}
	})
}

func TestTenReadersSeeTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.submit()
		readers := make([]*reader, 10)
		for i := range readers {
			readers[i] = d.follow(stream.Query{})
		}
		synctest.Wait()
		talk(d)
		d.flush()
		<-time.After(3 * time.Second)
		synctest.Wait()
		for _, r := range readers {
			r.check()
			r.gotAll("", 0)
			wants(t, "open text", words, r.text(d.open.ID))
			wants(t, "events", readers[0].kinds(), r.kinds())
		}
		for _, r := range readers {
			r.hangUp()
		}
	})
}
