package outbound

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom/channel/chat"
	"mailroom/channel/chat/room"
)

// TestARoomViewIsKeptWhileItIsInUse follows and asks in a group that some deliveries do not mark as a
// group.
func TestARoomViewIsKeptWhileItIsInUse(t *testing.T) {
	r, group, known := NewRooms(), chat.Room{Chat: "g", Group: true}, chat.Room{Chat: "g"}
	r.ask(known, "k", "t")
	r.update(group, func(s *room.State) { s.Follow("t", 7) })
	want := []watch{{thread: "t", room: group, after: 7}}
	if got := r.followed(); !cmp.Equal(got, want, cmp.AllowUnexported(watch{})) {
		t.Errorf("%+v is followed, want %+v", got, want)
	}
	if diff := cmp.Diff(map[string]chat.Room{"k": group}, r.questions()); diff != "" {
		t.Errorf("questions (-want +got)\n%s", diff)
	}
	if !r.asks("t") || r.asks("other") {
		t.Error("the question is in another conversation")
	}
	r.update(known, func(s *room.State) {
		s.Unfollow("t")
		s.SetGone(true)
	})
	if len(r.views) != 0 {
		t.Errorf("%d views in memory", len(r.views))
	}
}

func TestAChannelWatchesALimitedNumberOfQuestions(t *testing.T) {
	r := NewRooms()
	for i := range maxWatchedQuestions + 1 {
		r.ask(chat.Room{Chat: fmt.Sprint(i % 7)}, fmt.Sprint("k", i), "t")
	}
	if n := len(r.questions()); n != maxWatchedQuestions {
		t.Errorf("%d questions are watched", n)
	}
}
