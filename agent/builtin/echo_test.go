package builtin_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/agent/builtin"
)

// recorder is a Session in memory. Only the agent's goroutine uses it.
type recorder struct {
	mailroom.Session // nil: the agent must not call other methods

	input   []mailroom.Message
	steers  map[int][]mailroom.Message // steered messages by the number of chunks before them
	said    []string
	at      []time.Time
	onPiece func()
}

func (r *recorder) Input(context.Context) ([]mailroom.Message, error) { return r.input, nil }

func (r *recorder) Steered(context.Context) ([]mailroom.Message, error) {
	m := r.steers[len(r.said)]
	delete(r.steers, len(r.said))
	return m, nil
}

func (r *recorder) Stream(ctx context.Context, text string) error {
	r.said = append(r.said, text)
	r.at = append(r.at, time.Now())
	if r.onPiece != nil {
		r.onPiece()
	}
	return nil
}

func messages(texts ...string) []mailroom.Message {
	var ms []mailroom.Message
	for _, t := range texts {
		ms = append(ms, mailroom.Message{Text: t, Parts: mailroom.Text(t)})
	}
	return ms
}

func TestEchoStreamsItsInputWordByWord(t *testing.T) {
	cases := []struct {
		name  string
		input []mailroom.Message
		want  []string
	}{
		{"white space is kept", messages("  one\ttwo \n three "), []string{"  one", "\ttwo", " \n three "}},
		{"messages are joined by newlines", messages("one two", "three"), []string{"one", " two", "\nthree"}},
		{"any script", messages("grüß 世界"), []string{"grüß", " 世界"}},
		{"one word", messages("one"), []string{"one"}},
		{"no text", messages(""), nil},
		{"only white space", messages("  "), []string{"  "}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{input: c.input}
				if err := builtin.NewEcho(time.Second).Run(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, r.said); diff != "" {
					t.Errorf("text (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestEchoPausesBetweenWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{input: messages("one two three")}
		start := time.Now()
		if err := builtin.NewEcho(builtin.DefaultPace).Run(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		var got []time.Duration
		for _, at := range r.at {
			got = append(got, at.Sub(start))
		}
		want := []time.Duration{0, builtin.DefaultPace, 2 * builtin.DefaultPace}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("times of the words (-want +got):\n%s", diff)
		}
		if got := time.Since(start); got != 2*builtin.DefaultPace {
			t.Errorf("the run took %v, want no pause after the last word", got)
		}
	})
}

func TestEchoWithoutAPaceStreamsItsInputAtOnce(t *testing.T) {
	r := &recorder{input: messages("one two", "three")}
	if err := builtin.NewEcho(0).Run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one two\nthree"}, r.said); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestEchoStopsWithTheCauseOfItsContext(t *testing.T) {
	for _, pace := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			r := &recorder{input: messages("one two"), steers: map[int][]mailroom.Message{1: messages("three")}}
			r.onPiece = func() { cancel(mailroom.ErrStopped) }
			start := time.Now()
			err := builtin.NewEcho(pace).Run(ctx, r)
			if !errors.Is(err, mailroom.ErrStopped) {
				t.Errorf("pace %v: error %v, want %v", pace, err, mailroom.ErrStopped)
			}
			if len(r.said) != 1 {
				t.Errorf("pace %v: text %q, want none after the stop", pace, r.said)
			}
			if got := time.Since(start); got != 0 {
				t.Errorf("pace %v: stopped after %v, want at once", pace, got)
			}
		})
	}
}

func TestEchoStreamsSteeredMessagesAtTheEnd(t *testing.T) {
	for after := range 4 {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{
				input:  messages("one two three"),
				steers: map[int][]mailroom.Message{after: messages("four", "five"), 5: messages("six")},
			}
			if err := builtin.NewEcho(time.Second).Run(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if got, want := strings.Join(r.said, ""), "one two three\nfour\nfive\nsix"; got != want {
				t.Errorf("steered after %d words: text %q, want %q", after, got, want)
			}
		})
	}
}

func TestErrorsOfTheSessionEndTheRun(t *testing.T) {
	lost := mailroom.Errorf(mailroom.CodeLeaseLost, "the claim was revoked")
	r := &failing{recorder: recorder{input: messages("one")}, err: lost}
	if err := builtin.NewEcho(0).Run(t.Context(), r); mailroom.CodeOf(err) != mailroom.CodeLeaseLost {
		t.Errorf("error %v, want %v", err, lost)
	}
}

type failing struct {
	recorder
	err error
}

func (f *failing) Stream(context.Context, string) error { return f.err }
