package bell_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mailroom/internal/retry"
	"mailroom/protocol/bell"
)

var (
	start  = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	pauses = retry.Policy{First: time.Minute, Factor: 2, Most: 5 * time.Minute}
)

func TestABellRingsAtOnceAndThenLessAndLessOften(t *testing.T) {
	now := start
	s := bell.State{}.Changed("a", now)
	var waits []time.Duration
	for range 5 {
		waits = append(waits, s.Due.Sub(now))
		now = s.Due
		s = s.Tried(nil, pauses, now, 0)
	}
	want := "[0s 1m0s 2m0s 4m0s 5m0s]"
	if got := fmt.Sprint(waits); got != want {
		t.Errorf("pauses before the rings: %s, want %s", got, want)
	}
}

func TestAPopStartsTheRingsAnew(t *testing.T) {
	s := bell.State{}.Changed("a", start)
	for range 4 {
		s = s.Tried(nil, pauses, start, 0)
	}
	later := start.Add(time.Hour)
	next := s.Changed("b", later)
	if next.Rings != 0 || !next.Read.Equal(later) || !next.Due.After(later) || next.Due.After(later.Add(time.Minute)) {
		t.Errorf("after a pop before a further message: %+v, want no rings, and the next one soon but not at once", next)
	}
	empty := s.Changed("", later)
	if !empty.Due.IsZero() || !empty.Read.Equal(later) {
		t.Errorf("after the last pop: %+v, want no ring", empty)
	}
	if again := empty.Changed("c", later.Add(time.Second)); !again.Due.Equal(later.Add(time.Second)) {
		t.Errorf("mail in an empty inbox is rung at %s, want at once", again.Due)
	}
	if same := s.Changed("a", later); same != s {
		t.Errorf("the same head changed %+v to %+v", s, same)
	}
}

func TestASessionThatIsGoneIsNotRungAgain(t *testing.T) {
	s := bell.State{}.Changed("a", start).Tried(fmt.Errorf("%w: killed", bell.ErrGone), pauses, start, 0)
	if !s.Gone || !s.Due.IsZero() {
		t.Errorf("%+v, want no further ring", s)
	}
	if s = s.Changed("", start).Changed("b", start); !s.Due.IsZero() {
		t.Errorf("%+v after new mail, want no further ring", s)
	}
}

// TestRingsFollowMail draws histories and compares what is due with what they say: a ring is due exactly while mail
// waits and the session is there, and never earlier than the last ring allows.
func TestRingsFollowMail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now, head, gone := bell.State{}, start, "", false
		failed := errors.New("refused")
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "seconds")) * time.Second)
			if rapid.Bool().Draw(t, "head") {
				head = rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "run")
				s = s.Changed(head, now)
			} else if !s.Due.IsZero() && !s.Due.After(now) {
				err := rapid.SampledFrom([]error{nil, nil, failed, bell.ErrGone}).Draw(t, "error")
				gone = gone || err == bell.ErrGone
				s = s.Tried(err, pauses, now, rapid.Float64Range(0, 1).Draw(t, "jitter"))
				if !s.Due.IsZero() && !s.Due.After(now) {
					t.Fatalf("two rings without a pause: %+v", s)
				}
			}
			if due := !s.Due.IsZero(); due != (head != "" && !gone) {
				t.Fatalf("due: %v with head %q and gone %v", due, head, gone)
			}
			if s.Due.After(now.Add(6 * time.Minute)) { // the longest pause with its jitter
				t.Fatalf("the next ring is %s away", s.Due.Sub(now))
			}
		}
	})
}
