package thread_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"mailroom"
	"mailroom/thread"
)

func TestWhatAnAgentWaitsForIsOnePlainShortLine(t *testing.T) {
	long := strings.Repeat("ä", 150) // of two bytes each
	for _, c := range []struct{ text, want string }{
		{"tool call: cargo test", "tool call: cargo test"},
		{"", ""}, {" \n\t ", ""},
		{"a\nb\r\n\tc\x00d\x1b[31m", "a b c d [31m"},
		{"safe\u202eexe.\u2028x\u200bz\ufeff", "safe exe. x z"},
		{"bad \xff\xfe bytes", "bad bytes"},
		{long, strings.Repeat("ä", 98) + "…"},
		{strings.Repeat("x", 200), strings.Repeat("x", 200)},
		{strings.Repeat("y", 201), strings.Repeat("y", 197) + "…"},
	} {
		if got := thread.WaitsOn(c.text); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 10_000 {
		text := make([]byte, random.IntN(600))
		for i := range text {
			text[i] = byte(random.UintN(256))
		}
		got := thread.WaitsOn(string(text))
		bad := strings.ContainsFunc(got, func(c rune) bool {
			return unicode.In(c, unicode.Cc, unicode.Cf, unicode.Cs, unicode.Zl, unicode.Zp)
		})
		if len(got) > mailroom.MaxWaitsOn || !utf8.ValidString(got) || bad || thread.WaitsOn(got) != got {
			t.Fatalf("seed %d: %q becomes %q", seed, text, got)
		}
	}
}

func TestWhatAnAgentWaitsForEndsWithItsNextStepAndItsClaim(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(w *fixture, c mailroom.Claim) error
	}{
		{"a step", func(w *fixture, c mailroom.Claim) error {
			_, err := w.append(thread.StepCommit{Claim: c, Number: 1, Step: mailroom.Step{Name: "x"}})
			return err
		}},
		{"the end of the attempt", func(w *fixture, c mailroom.Claim) error {
			w.now = w.runs["a"].ClaimEnds
			w.overrun()
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			w.limit = time.Hour
			w.must(in("", "a"))
			claim := w.mustStart("a")
			since := w.now
			say := func(of mailroom.Claim, text string) (fresh bool) {
				t.Helper()
				if err := w.do(thread.ScopeHead, nil, func(l *thread.State) error {
					fresh = thread.SetWaitsOn(l, of, text, w.now)
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				return fresh
			}
			seq := w.row.LastSeq
			if !say(claim, "tests") {
				t.Error("a new text is not new")
			}
			w.wait(time.Minute)
			other := claim
			other.Attempt++
			if say(claim, "tests") || say(other, "of a claim that does not hold the run") {
				t.Error("a repeat is new")
			}
			if r := w.runs["a"]; r.WaitsOn != "tests" || !r.WaitsSince.Equal(since) || w.row.LastSeq != seq {
				t.Errorf("it waits on %q since %s, with %d entries", r.WaitsOn, r.WaitsSince, w.row.LastSeq-seq)
			}
			if err := c.end(w, claim); err != nil {
				t.Fatal(err)
			}
			if r := w.runs["a"]; r.WaitsOn != "" || !r.WaitsSince.IsZero() {
				t.Errorf("it still waits on %q since %s", r.WaitsOn, r.WaitsSince)
			}
		})
	}
}
