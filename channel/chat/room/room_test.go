package room

import (
	"fmt"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/entry"
	"mailroom/stream"
)

func testCaps() *chat.Capabilities {
	return &chat.Capabilities{MaxUnits: 20, Units: utf8.RuneCountInString, Edits: true, Typing: true,
		EditInterval: time.Second}
}

func item(kind, run string) stream.Event {
	return stream.Event{Entry: &mailroom.Entry{Kind: kind, Run: run}}
}

func delta(run, message string, at int, text string) stream.Event {
	return stream.Event{Delta: &entry.Delta{Run: run, Message: message, Offset: at, Text: text}}
}

func TestAConversationFollowsItsStream(t *testing.T) {
	s := New()
	s.Follow("t", 1)
	for i, c := range []struct {
		event              stream.Event
		run, message, text string
	}{
		{item(entry.KindStarted, "r"), "r", "", ""},
		{delta("r", "m1", 0, "one"), "r", "m1", "one"},
		{delta("r", "m1", 3, " two"), "r", "m1", "one two"},
		{delta("r", "m1", 3, " too"), "r", "m1", "one too"},
		{delta("r", "m1", 99, "lost"), "r", "m1", "one too"},
		{item(entry.KindMessage, "other"), "r", "m1", "one too"},
		{stream.Event{Gap: &stream.Gap{}}, "r", "m1", "one too"},
		{item(entry.KindMessage, "r"), "r", "", ""},
		{delta("r", "m2", 0, "new"), "r", "m2", "new"},
		{item(entry.KindRescheduled, "r"), "", "", ""},
		{item(entry.KindResumed, "r"), "r", "", ""},
		{item(entry.KindCompleted, "r"), "", "", ""},
	} {
		s.Apply("t", c.event)
		if v := s.conversations["t"]; v.run != c.run || v.message != c.message || v.text != c.text {
			t.Errorf("after event %d: got %q, %q, %q, want %q, %q, %q", i, v.run, v.message, v.text, c.run, c.message, c.text)
		}
	}
}

// script plays a conversation "t" whose run "r" writes message "m", and records the action of each tick.
type script struct {
	*State
	caps     *chat.Capabilities
	previews bool
	busy     bool // the rate limits admit no edit
	now      time.Duration
	got      []string
}

func (x *script) writes(text string) { x.Apply("t", delta("r", "m", 0, text)) }

func (x *script) tick(at time.Duration) {
	x.now = at
	a := x.Tick("t", Tick{Now: time.Unix(1_800_000_000, 0).Add(at), Caps: x.caps, Previews: x.previews, Free: !x.busy})
	switch a.Kind {
	case ActionTyping:
		x.got = append(x.got, fmt.Sprint("typing at ", at))
	case ActionEdit:
		x.got = append(x.got, fmt.Sprintf("%s: %s", a.ID, a.Text))
		x.Edited(a.Run, a.ID, a.Text)
	case ActionPreview:
		x.got = append(x.got, fmt.Sprintf("preview %d of %s at %s", a.Try, a.Message, at))
	}
}

func TestATickReturnsTheActionThatIsDue(t *testing.T) {
	second := time.Second
	for name, c := range map[string]struct {
		play func(x *script)
		want []string
	}{
		"no text yet":                          {func(x *script) { x.tick(0); x.tick(3 * second); x.tick(4 * second) }, []string{"typing at 0s", "typing at 4s"}},
		"a platform without typing indicators": {func(x *script) { x.caps.Typing = false; x.tick(0) }, nil},
		"without previews":                     {func(x *script) { x.previews = false; x.writes("one"); x.tick(0) }, []string{"typing at 0s"}},
		"a preview that is never sent": {func(x *script) {
			x.writes("one")
			for i := range 100 {
				x.tick(time.Duration(i) * second)
			}
		},
			[]string{"preview 1 of m at 0s", "preview 2 of m at 3s", "preview 3 of m at 9s", "preview 4 of m at 18s",
				"preview 5 of m at 30s"}},
		"a busy room": {func(x *script) { x.busy = true; x.writes("one"); x.tick(0); x.busy = false; x.tick(second) }, []string{"preview 1 of m at 1s"}},
		"a preview that was sent": {func(x *script) {
			x.writes("one")
			x.tick(0)
			x.PreviewSent("r", "1", "one …")
			x.tick(second) // unchanged
			x.writes("one two")
			x.tick(2 * second)
			x.writes("one two three four five")
			x.tick(3 * second)
		}, []string{"preview 1 of m at 0s", "1: one two …", "1: one two three …"}},
		"a delivered reply": {func(x *script) {
			x.writes("one")
			x.tick(0)
			x.PreviewSent("r", "1", "one …")
			x.DropPreview("r")
			x.Edited("r", "1", "late")
			x.Apply("t", item(entry.KindCompleted, "r"))
			x.tick(second)
		}, []string{"preview 1 of m at 0s"}},
		"another message of the run": {func(x *script) {
			x.writes("one")
			x.tick(0)
			x.PreviewSent("r", "1", "one …")
			x.DropPreview("r")
			x.Apply("t", item(entry.KindMessage, "r"))
			x.Apply("t", delta("r", "m2", 0, "two"))
			x.tick(second)
		}, []string{"preview 1 of m at 0s", "preview 1 of m2 at 1s"}},
		"another connection": {func(x *script) {
			x.writes("one")
			x.tick(0)
			x.PreviewSent("r", "1", "one …")
			x.Follow("t", 1)
			x.tick(second) // the stream has not begun
			x.Apply("t", item(entry.KindResumed, "r"))
			x.writes("one two")
			x.tick(2 * second)
		}, []string{"preview 1 of m at 0s", "1: one two …"}},
		"a room that is gone": {func(x *script) {
			x.writes("one")
			x.PreviewSent("r", "1", "one …")
			x.SetGone(true)
			x.tick(0)
			x.SetGone(false)
			x.tick(second)
		}, []string{"preview 1 of m at 1s"}},
		"a conversation that ended": {func(x *script) { x.Unfollow("t"); x.writes("one"); x.tick(0) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			x := &script{State: New(), caps: testCaps(), previews: true}
			x.Follow("t", 1)
			x.Apply("t", item(entry.KindStarted, "r"))
			c.play(x)
			if diff := cmp.Diff(c.want, x.got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestADecidedQuestionIsRedrawnALimitedNumberOfTimes(t *testing.T) {
	second := time.Second
	shown := Saved{Asked: []Asked{{Ticket: "q", ID: "1"}}}
	for name, c := range map[string]struct {
		decided time.Duration // since the start
		redrawn time.Duration
		gone    bool
		want    []string
	}{
		"at once by its own delivery": {5 * second, 5 * second, false, nil},
		"once":                        {5 * second, 7 * second, false, []string{"6s"}},
		"never":                       {5 * second, time.Hour, false, []string{"6s", "16s", "36s", "1m16s", "2m36s"}},
		"a deleted room":              {5 * second, time.Hour, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := New()
			s.Ask("q", "t")
			s.Ask("q", "t")
			s.SetGone(c.gone)
			var got []string
			for at := time.Duration(0); at < time.Hour; at += second {
				saved := shown
				if at >= c.redrawn {
					saved = Saved{}
				}
				due, wait := s.Check(map[string]bool{"q": at >= c.decided}, saved, time.Unix(1_800_000_000, 0).Add(at))
				if wait <= 0 || wait > CheckInterval {
					t.Fatalf("the next check is in %s", wait)
				}
				for _, a := range due {
					got = append(got, at.String())
					if want := (Action{Kind: ActionRedraw, Ticket: "q", Try: len(got)}); a != want {
						t.Errorf("got %+v, want %+v", a, want)
					}
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if s.Asks("t") || !s.IsIdle() {
				t.Errorf("%v is still watched", s.Questions())
			}
		})
	}
}
