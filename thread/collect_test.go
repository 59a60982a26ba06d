package thread_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

func TestCollectJoinsTheNewestRunThatFits(t *testing.T) {
	with := func(f func(*thread.Submit)) thread.Submit {
		s := in(mailroom.ModeCollect, "n")
		f(&s)
		return s
	}
	for _, c := range []struct {
		name  string
		extra thread.Submit // in the queue behind "a" of ann and echo
		in    thread.Submit
		want  string // the run that takes the message
	}{
		{"the newest", in("", "b"), with(func(*thread.Submit) {}), "b"},
		{"not of another agent", with(func(s *thread.Submit) { s.Mode, s.Run, s.Agent = "queue", "b", "codex" }), with(func(s *thread.Submit) {
			s.Agent = "echo"
		}), "a"},
		{"not of another sender", with(func(s *thread.Submit) { s.Mode, s.Run, s.Origin.Sender = "queue", "b", "bob" }), in("collect", "n"), "a"},
		{"not a child", with(func(s *thread.Submit) { s.Mode, s.Run, s.Parent = "queue", "b", "elsewhere" }), in("collect", "n"), "a"},
		{"none of its agent", in("", "b"), with(func(s *thread.Submit) { s.Agent = "codex" }), "n"},
		{"none of its sender", in("", "b"), with(func(s *thread.Submit) { s.Origin.Sender = "bob" }), "n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			w.must(in("", "x"))
			w.mustStart("x")
			w.must(in("", "a"))
			w.must(c.extra)
			wantEqual(t, "run", w.must(c.in).Run, c.want)
		})
	}
}

func TestCollectJoinsNoRunThatWasClaimedBefore(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.mustStart("a")
	w.end(failed(mailroom.ClassPermanent))
	if _, err := w.retry(thread.Retry{Run: "a"}); err != nil {
		t.Fatal(err)
	}
	out := w.must(in(mailroom.ModeCollect, "n"))
	wantEqual(t, "run", out.Run, "n")
	wantEqual(t, "disposition", out.Disposition, store.DispositionQueued)
}

func TestAFullRunCollectsNoFurtherMessage(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "x"))
	w.mustStart("x")
	collect := func(run string, size int) store.Submitted {
		s := in(mailroom.ModeCollect, run)
		s.Messages = []thread.NewMessage{{Parts: mailroom.Text(strings.Repeat("m", size))}}
		return w.must(s)
	}
	for i, e := range []struct {
		size int
		want string
	}{
		{mailroom.MaxText, "a"},
		{mailroom.MaxText * 9 / 10, "a"},
		{mailroom.MaxText, "b"},
		{10, "b"}, // never in a: the order would be another one
		{mailroom.MaxText * 9 / 10, "b"},
		{mailroom.MaxText, "c"},
	} {
		wantEqual(t, fmt.Sprint("run of message ", i), collect(e.want, e.size).Run, e.want)
	}
	for i := range mailroom.MaxMessages {
		want := "c"
		if i == mailroom.MaxMessages-1 {
			want = "d"
		}
		wantEqual(t, fmt.Sprint("run of small message ", i), collect(want, 1).Run, want)
	}
}

func TestARunStartsWithAllCollectedMessages(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.must(in(mailroom.ModeCollect, "n"))
	w.must(in(mailroom.ModeCollect, "m"))
	w.mustStart("a")
	wantEqual(t, "inputs", body[entry.RunStarted](t, w.last()).Messages, []int64{1, 3, 4})
}

func TestCollectPostponesAScheduledRun(t *testing.T) {
	w := newFixture(t)
	begin := w.now
	collect := func(run string, after time.Duration) store.Submitted {
		s := in(mailroom.ModeCollect, run)
		s.NotBefore = w.now.Add(after)
		return w.must(s)
	}
	collect("a", 3*time.Second)
	for _, want := range []time.Duration{5, 7, 9, 10, 10} {
		w.wait(2 * time.Second)
		if w.now.Sub(begin) >= 10*time.Second {
			break
		}
		out := collect("n", 3*time.Second)
		wantEqual(t, "run", out.Run, "a")
		wantEqual(t, "not before", w.runs["a"].NotBefore.Sub(begin), want*time.Second)
		wantEqual(t, "due", w.row.Due.At.Sub(begin), want*time.Second)
	}
	if r := w.start(); r == nil || len(r.Inputs) != 5 {
		t.Errorf("started %v, want run a with 5 messages", r)
	}
}

func TestCollectMovesARunNeitherBackNorOutOfTheQueue(t *testing.T) {
	w := newFixture(t)
	s := in("", "held")
	s.NotBefore = w.now.Add(time.Hour)
	w.must(s)
	c := in(mailroom.ModeCollect, "n")
	c.NotBefore = w.now.Add(time.Second)
	wantEqual(t, "run", w.must(c).Run, "held")
	wantEqual(t, "not before", w.runs["held"].NotBefore, s.NotBefore)

	w.must(in("", "a"))
	c.Run = "m"
	wantEqual(t, "run", w.must(c).Run, "a")
	w.mustStart("a")
}
