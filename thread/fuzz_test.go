package thread_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/check"
	"mailroom/store"
	"mailroom/thread"
)

func FuzzParseEntry(f *testing.F) {
	e, err := entry.New("t", 1, entry.KindMessage, "r", 2, time.Unix(1, 0).UTC(), entry.MessageRef{Message: "<m>"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(e.Raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := entry.Parse(raw)
		if err != nil {
			return
		}
		if !bytes.Equal(e.Raw, raw) {
			t.Fatalf("kept %q of %q", e.Raw, raw)
		}
		encoded, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var again mailroom.Entry
		if err := json.Unmarshal(encoded, &again); err != nil {
			t.Fatalf("%q becomes %q: %v", raw, encoded, err)
		}
		wantEqual(t, "once more", []any{again.Thread, again.Seq, again.Kind, again.Run, again.Attempt, again.At.UnixNano()},
			[]any{e.Thread, e.Seq, e.Kind, e.Run, e.Attempt, e.At.UnixNano()})
	})
}

func FuzzCheckThreadID(f *testing.F) {
	for _, s := range []string{"a", " a ", "..", "a/b", "日本", "\xff", strings.Repeat("a", 201)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := check.ThreadID(s)
		if err != nil {
			wantCode(t, err, mailroom.CodeInvalid)
			return
		}
		if again, err := check.ThreadID(id); err != nil || again != id {
			t.Errorf("%q: %q is no id by itself: %q, %v", s, id, again, err)
		}
		if n := utf8.RuneCountInString(id); n < 1 || n > mailroom.MaxThreadID || strings.Contains(id, "/") ||
			strings.TrimSpace(s) != id || id == "." || id == ".." || !utf8.ValidString(id) {
			t.Errorf("%q: %q is taken", s, id)
		}
	})
}

// FuzzSubmit: a submit that Check takes can be carried out and repeated; one that
// it refuses is not.
func FuzzSubmit(f *testing.F) {
	f.Add("text", "hello", []byte(nil), "", "queue", "k", int64(0), []byte(`{"a":1}`), "ann", 128, 5)
	f.Add("data", "", []byte(`[1, 2]`), "", "collect", "", int64(1<<40), []byte(nil), "", 0, 0)
	f.Add("file", "", []byte(nil), "x:y", "steer", "\x00", int64(-1), []byte(`{`), "\xff", 256, 101)
	f.Fuzz(func(t *testing.T, kind, words string, data []byte, uri, mode, key string, at int64, options []byte,
		sender string, priority, attempts int) {
		submit := func(run string) thread.Submit {
			s := thread.Submit{
				Thread: "t", Run: run, Sender: sender, Origin: mailroom.Origin{Sender: sender}, Agent: "echo",
				Messages: []thread.NewMessage{{Parts: []mailroom.Part{{Type: kind, Text: words, Data: data, URI: uri}}}},
				Mode:     mailroom.Mode(mode), Key: key, Options: options, Priority: &priority, MaxAttempts: attempts,
			}
			if at != 0 {
				s.NotBefore = time.UnixMicro(at)
			}
			return s
		}
		w := newFixture(t)
		checked := submit("a")
		refused := checked.Check()
		_, err := w.submit(submit("a"))
		if (refused == nil) != (err == nil) {
			t.Fatalf("check says %v, submit %v", refused, err)
		}
		if err != nil {
			wantCode(t, err, mailroom.CodeInvalid)
			return
		}
		if out, err := w.submit(submit("b")); key != "" && (err != nil || out.Disposition != store.DispositionDuplicate) {
			t.Fatalf("a repeat: got %+v, error %v", out, err)
		}
		for _, e := range w.log {
			if !utf8.Valid(e.Raw) || bytes.ContainsAny(e.Raw, "\x00\n") {
				t.Fatalf("entry %q", e.Raw)
			}
		}
	})
}
