package matrix_test

import (
	"fmt"
	"strings"
	"testing"

	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/matrix/matrixtest"
)

// TestARefusedHistoryAffectsOneRoomOnly checks that the connection and other rooms continue.
func TestARefusedHistoryAffectsOneRoomOnly(t *testing.T) {
	t.Parallel()
	for _, fault := range []matrixtest.Fault{
		{Status: 403, Code: "M_FORBIDDEN"}, {Status: 404, Code: "M_NOT_FOUND"}, {Status: 400, Code: "M_UNKNOWN"},
		{Status: 400, Code: "M_INVALID_PARAM"},
		{Status: 400, Code: "M_BAD_STATE"}, {Status: 403, Code: "ORG.EXAMPLE.NEW"},
	} {
		w, r := newRecorder(t, matrixtest.Start(t).URL, "")
		w.bot.Says(w.rooms[channeltest.Ann], "its own")
		for range 60 { // more than the timeline limit
			w.ann.Says(w.rooms[channeltest.Ann], "still there")
		}
		w.proxy.Fail("messages", fault)
		r.Start()
		r.AwaitConnected()
		matrixtest.WaitFor(t, "the timeline's messages", func() bool { return len(r.Recorded()) > 0 })
		if s := r.State(); s.Condition != channel.ConditionConnected || s.Adapter != 1 {
			t.Errorf("%s: the channel is %+v", fault.Code, s)
		}
		w.ann.Says(w.rooms[channeltest.Ann], "after")
		matrixtest.WaitFor(t, "the message after the refusal", func() bool { return strings.HasSuffix(r.Texts(), "after") })
	}
}

// TestAnUnreadableRoomAffectsItselfOnly checks that other rooms continue, that the room's events keep
// their order, and that a new connection neither skips nor repeats events.
func TestAnUnreadableRoomAffectsItselfOnly(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(r *channeltest.Recorder){
		"an answer at last":  func(*channeltest.Recorder) {},
		"another connection": func(r *channeltest.Recorder) { r.Reconnect() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := matrixtest.Start(t).URL
			w, r := newRecorder(t, url, "")
			bob := matrixtest.NewPerson(t, url, "bob", "")
			group := w.newGroup(bob)
			r.Start().AwaitConnected()
			w.ann.Says(w.rooms[channeltest.Ann], "one")
			r.AwaitTexts("one")
			asked, hold := len(w.proxy.Calls("joined_members")), make(chan struct{})
			w.proxy.Fail("joined_members",
				matrixtest.Fault{Status: 500, Code: "M_UNKNOWN", Message: "no"}, matrixtest.Fault{Status: 502, Raw: "<html>"},
				matrixtest.Fault{Hold: hold})
			bob.Says(group, "two")
			matrixtest.WaitFor(t, "a room that is slow", func() bool { return len(w.proxy.Calls("joined_members")) == asked+3 })
			bob.Says(group, "three")
			w.ann.Says(w.rooms[channeltest.Ann], "elsewhere")
			r.AwaitTexts("one, elsewhere")
			r.AwaitError("retrying later")
			if s := r.State(); s.Condition != channel.ConditionConnected || s.Adapter != 1 {
				t.Errorf("the channel is %+v", s)
			}
			after(r)
			close(hold)
			r.AwaitTexts("one, elsewhere, two, three")
			bob.Says(group, "four")
			w.ann.Says(w.rooms[channeltest.Ann], "five")
			matrixtest.WaitFor(t, "both", func() bool { return len(r.Recorded()) >= 6 })
			r.Reconnect()
			bob.Says(group, "six")
			matrixtest.WaitFor(t, "the last", func() bool { return strings.HasSuffix(r.Texts(), "six") })
			if n := len(r.Recorded()); n != 7 {
				t.Errorf("got %q", r.Texts())
			}
		})
	}
}

// TestARoomThatCannotBeJoinedDelaysNoOther checks that joining is retried in the background, also
// by a new connection.
func TestARoomThatCannotBeJoinedDelaysNoOther(t *testing.T) {
	t.Parallel()
	w, r := newRecorder(t, matrixtest.Start(t).URL, "")
	r.FailWith(func(e chat.Event) error {
		if e.Accept != nil {
			return e.Accept(t.Context())
		}
		return nil
	})
	r.Start().AwaitConnected()
	broken := matrixtest.Fault{Status: 502, Code: "M_UNKNOWN", Message: "no server of this room answers"}
	w.proxy.Fail("join", broken, broken, broken, broken)
	room := w.ann.NewRoom(true, w.bot)
	matrixtest.WaitFor(t, "a try", func() bool { return len(w.proxy.Calls("join")) > 0 })
	w.ann.Says(w.rooms[channeltest.Ann], "elsewhere")
	matrixtest.WaitFor(t, "the other room", func() bool { return strings.Contains(r.Texts(), "elsewhere") })
	if s := r.State(); s.Condition != channel.ConditionConnected || s.Adapter != 1 {
		t.Errorf("the channel is %+v", s)
	}
	r.Reconnect()
	matrixtest.WaitFor(t, "the room joined", func() bool {
		calls := w.proxy.Calls("join")
		return len(calls) == 5 && calls[4].Status == 200
	})
	w.ann.Says(room, "welcome")
	matrixtest.WaitFor(t, "the message in the room", func() bool { return strings.HasSuffix(r.Texts(), "welcome") })
}

func TestAFailedReadOfARoomIsRetried(t *testing.T) {
	t.Parallel()
	for call, want := range map[string]string{"joined_members": "list room members", "messages": "read room history"} {
		w, r := newRecorder(t, matrixtest.Start(t).URL, "")
		w.bot.Says(w.rooms[channeltest.Ann], "its own")
		for i := range 60 { // more than the timeline limit
			w.ann.Says(w.rooms[channeltest.Ann], fmt.Sprint(i))
		}
		w.proxy.Fail(call, matrixtest.Fault{Status: 500, Code: "M_UNKNOWN", Message: "no"})
		r.Start()
		r.AwaitError(want)
		if all := r.AwaitEvents(60); all[0].Text != "0" || all[59].Text != "59" {
			t.Errorf("recorded %q", r.Texts())
		}
	}
}
