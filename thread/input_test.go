package thread_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/thread"
)

// input claims the next run with a State that has only the stored rows, and returns what it knows of the
// run's input.
func (w *fixture) input() (input []mailroom.Message) {
	w.t.Helper()
	err := w.do(thread.ScopeHead, nil, func(l *thread.State) error {
		r := l.Claim(thread.Claimant{Worker: "w1", Round: 1}, l.Due.Agent, l.Due.LastAttempt, w.now)
		input = l.Input(r)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return input
}

func TestARunThatWaitedStartsWithTheShortInputOfItsRow(t *testing.T) {
	short := func(f func(*thread.Submit)) func(w *fixture) {
		return func(w *fixture) {
			s := in("", "a")
			f(&s)
			w.must(s)
		}
	}
	change := func(f func(w *fixture) error) func(w *fixture) {
		return func(w *fixture) {
			w.must(in("", "a"))
			if err := f(w); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	messages := func(list ...thread.NewMessage) func(w *fixture) {
		return short(func(s *thread.Submit) { s.Messages = list })
	}
	text := func(n int) []mailroom.Part { return mailroom.Text(strings.Repeat("ü", n)) }
	for _, c := range []struct {
		name  string
		begin func(w *fixture)
		inRow bool
	}{
		{"a text", messages(thread.NewMessage{Parts: mailroom.Text("say <a>\n\u2028")}), true},
		{"a text of 512 bytes", messages(thread.NewMessage{Parts: text(256)}), true},
		{"a longer text", messages(thread.NewMessage{Parts: text(257)}), false},
		{"two messages", messages(thread.NewMessage{Parts: text(1)}, thread.NewMessage{Parts: text(2)}), false},
		{"two parts", messages(thread.NewMessage{Parts: append(text(1), text(2)...)}), false},
		{"data", messages(thread.NewMessage{Parts: []mailroom.Part{{Type: "data", Text: "x", Data: json.RawMessage(`{}`)}}}), false},
		{"a file", messages(thread.NewMessage{Parts: []mailroom.Part{{Type: "file", Text: "x", URI: "file:///x"}}}), false},
		{"a text with a type", messages(thread.NewMessage{Parts: []mailroom.Part{{Type: "text", Text: "x", MimeType: "text/plain"}}}), false},
		{"a system message", messages(thread.NewMessage{Role: mailroom.RoleSystem, Parts: text(1)}), false},
		{"an internal message", messages(thread.NewMessage{Parts: text(1), Visibility: mailroom.VisibleInternal}), false},
		{"another sender than the origin", short(func(s *thread.Submit) { s.Sender = "bob" }), false},
		{"edited", change(func(w *fixture) error { return w.edit("a.1", "two") }), false},
		{"edited by an older version", change(func(w *fixture) error {
			w.runs["a"].Inputs[0].Seq = 3
			return nil
		}), false},
		{"collected into by an older version", change(func(w *fixture) error {
			w.runs["a"].Inputs = append(w.runs["a"].Inputs, mailroom.Input{Message: "b.3", Seq: 3})
			return nil
		}), false},
		{"retried", change(func(w *fixture) error {
			if _, err := w.cancel("a"); err != nil {
				return err
			}
			_, err := w.retry(thread.Retry{Run: "a"})
			return err
		}), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			c.begin(w)
			w.wait(time.Hour)
			var want []mailroom.Message
			if c.inRow {
				want = append(want, body[mailroom.Message](t, w.log[0]))
			}
			wantEqual(t, "input", w.input(), want)
			wantEqual(t, "text in the row of the started run", w.runs["a"].InputText, "")
		})
	}
}

func TestOnlyARunThatNeverStartedHasItsInputInItsRow(t *testing.T) {
	w := newFixture(t)
	w.must(in("", "a"))
	w.must(in("", "b"))
	w.must(in(mailroom.ModeCollect, "c"))
	w.must(in("", "d"))
	wantEqual(t, "queued", w.runs["a"].InputText, "say a")
	wantEqual(t, "with collected messages", []any{len(w.runs["b"].Inputs), w.runs["b"].InputText}, []any{2, ""})
	if _, err := w.cancel("d"); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "cancelled", w.runs["d"].InputText, "")
	w.mustStart("a")
	wantEqual(t, "started", w.runs["a"].InputText, "")
	w.must(in(mailroom.ModeSteer, "e"))
	w.end(completed("ok"))
	wantEqual(t, "steered", []any{w.state("e"), w.runs["e"].InputText}, []any{"queued", ""})
	wantEqual(t, "last entry", w.last().Kind, entry.KindQueued)
}
