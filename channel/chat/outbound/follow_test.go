package outbound

import (
	"context"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/channel/chat/room"
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
	caps := chat.Capabilities{MaxUnits: 100, Units: utf8.RuneCountInString, Edits: true}
	f := &follower{conn: &connection{platform: e, caps: caps, limiter: chat.NewLimiter(), rooms: NewRooms()},
		previews: true}
	w := watch{thread: "t", room: chat.Room{Chat: "1", Group: true}} // no pairing is asked for in a group
	view := func(change func(s *room.State)) { f.conn.rooms.update(w.room, change) }
	show := func(text string) {
		t.Helper()
		view(func(s *room.State) {
			s.Apply("t", stream.Event{Delta: &entry.Delta{Run: "run", Message: "message", Text: text}})
		})
		if err := f.tick(t.Context(), w); err != nil {
			t.Error(err)
		}
	}
	view(func(s *room.State) {
		s.Follow("t", 1)
		s.Apply("t", stream.Event{Entry: &mailroom.Entry{Kind: entry.KindStarted, Run: "run"}})
		s.Apply("t", stream.Event{Delta: &entry.Delta{Run: "run", Message: "message", Text: "o"}})
		for i := range room.MaxPreviewRequests { // uses all of them
			s.Tick("t", room.Tick{Now: time.Unix(int64(i)*1000, 0), Caps: &caps, Previews: true, Free: true})
		}
		s.PreviewSent("run", "m1", "o")
	})
	show("one")
	show("one") // unchanged
	show("one two")
	view(func(s *room.State) { s.DropPreview("run") })
	show("one two three")
	if diff := cmp.Diff([]string{"m1: one …", "m1: one two …"}, e.edits); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if err := f.edit(t.Context(), w.room, room.Action{Kind: room.ActionEdit, Run: "run", ID: "m1",
		Text: "late"}); err == nil || len(e.edits) > 2 {
		t.Errorf("edit that was decided before the delivery: %v, %q", err, e.edits)
	}
}
