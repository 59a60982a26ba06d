package adapter

import (
	"context"
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/entry"
	"mailroom/stream"
)

// editor is a platform that supports only edits.
type editor struct {
	chat.Platform
	edits []string
}

func (e *editor) Edit(_ context.Context, _ chat.Room, id string, m chat.Message) error {
	e.edits = append(e.edits, id+": "+m.Text)
	return nil
}

func TestAPreviewThatHasBecomeTheReplyIsNotEdited(t *testing.T) {
	e := &editor{}
	o := newOutbound(&adapter{platform: e, options: chat.Options{Previews: true}, caps: chat.Capabilities{MaxUnits: 100, Units: utf8.RuneCountInString, Edits: true}}, newShared())
	v := &viewer{outbound: o, requestedFor: "message", requests: maxPreviewRequests}
	o.updatePreview("run", func(l *livePreview) { l.messageID = "m1" })
	look := func(text string) {
		t.Helper()
		if err := v.refresh(t.Context(), "run", "message", text); err != nil {
			t.Error(err)
		}
	}
	look("one")
	look("one") // unchanged
	look("one two")
	o.dropPreview("run")
	look("one two three")
	if diff := cmp.Diff([]string{"m1: one …", "m1: one two …"}, e.edits); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAViewerFollowsTheStream(t *testing.T) {
	item := func(kind, run string) stream.Event { return stream.Event{Entry: &mailroom.Entry{Kind: kind, Run: run}} }
	delta := func(message string, at int, text string) stream.Event {
		return stream.Event{Delta: &entry.Delta{Run: "r", Message: message, Offset: at, Text: text}}
	}
	v := &viewer{}
	for i, c := range []struct {
		event              stream.Event
		run, message, text string
	}{
		{item(entry.KindStarted, "r"), "r", "", ""},
		{delta("m1", 0, "one"), "r", "m1", "one"},
		{delta("m1", 3, " two"), "r", "m1", "one two"},
		{delta("m1", 3, " too"), "r", "m1", "one too"},
		{delta("m1", 99, "lost"), "r", "m1", "one too"},
		{item(entry.KindMessage, "other"), "r", "m1", "one too"},
		{stream.Event{Gap: &stream.Gap{}}, "r", "m1", "one too"},
		{item(entry.KindMessage, "r"), "r", "", ""},
		{delta("m2", 0, "new"), "r", "m2", "new"},
		{item(entry.KindRescheduled, "r"), "", "", ""},
		{item(entry.KindResumed, "r"), "r", "", ""},
		{item(entry.KindCompleted, "r"), "", "", ""},
	} {
		v.onEvent(c.event)
		if v.run != c.run || v.message != c.message || v.text != c.text {
			t.Errorf("after event %d: got %q, %q, %q, want %q, %q, %q", i, v.run, v.message, v.text, c.run, c.message, c.text)
		}
	}
}

func TestFirstUnknown(t *testing.T) {
	began := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		entries []string // one per second. i: begun, f: failed, r: repeat recorded, o: another effect begun
		want    int      // -1: no unknown outcome
	}{
		"begun":                          {[]string{"i"}, 0},
		"failed, then begun again":       {[]string{"i", "f", "i"}, 2},
		"interrupted, then begun again":  {[]string{"i", "i"}, 0},
		"interrupted, then failed":       {[]string{"i", "i", "f"}, 0},
		"failed, then interrupted":       {[]string{"i", "f", "i", "i"}, 2},
		"recorded":                       {[]string{"i", "r"}, -1},
		"only another effect":            {[]string{"o"}, -1},
		"failed":                         {[]string{"i", "f"}, -1},
		"only another effect is unknown": {[]string{"o", "i", "f", "o"}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			var entries []mailroom.Entry
			for i, what := range c.entries {
				body, kind := any(entry.EffectEntry{Name: "send:1"}), entry.KindEffectIntended
				switch what {
				case "f":
					body, kind = entry.EffectEntry{Name: "send:1", Error: "no"}, entry.KindEffectSettled
				case "o":
					body = entry.EffectEntry{Name: "send:2"}
				case "r":
					body, kind = DeliveryNote{Effect: "send:1"}, KindRepeated
				}
				entries = append(entries, noted(t, i, kind, began.Add(time.Duration(i)*time.Second), body))
			}
			got, err := firstUnknown(entries, "send:1")
			want := time.Time{}
			if c.want >= 0 {
				want = began.Add(time.Duration(c.want) * time.Second)
			}
			if err != nil || !got.Equal(want) {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		})
	}
}

func noted(t *testing.T, i int, kind string, at time.Time, body any) mailroom.Entry {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return mailroom.Entry{Thread: "out", Seq: int64(i + 1), Kind: kind, Run: "r", Attempt: 1, At: at, Body: raw}
}
