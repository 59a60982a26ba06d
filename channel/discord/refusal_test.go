package discord_test

import (
	"strconv"
	"testing"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/discord/discordtest"
)

// TestNoErrorOfAConversationEndsTheBot answers a message to one person with every error that
// Discord documents for messages (JSON Error Codes,
// https://docs.discord.com/developers/topics/opcodes-and-status-codes), and checks the class of
// the reply and that the channel stays connected.
func TestNoErrorOfAConversationEndsTheBot(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, bob := dc.Person("Ann"), dc.Person("Bob")
	fx := newRecorder(t, dc).Start()
	p := fx.AwaitConnected()
	seen := 0
	for _, c := range []struct {
		want   mailroom.Class
		status int
		codes  []int
	}{
		{channeltest.ClassGone, 404, []int{10003, 10004, 10013}},
		{channeltest.ClassGone, 403, []int{50001, 50007, 50278}},
		{mailroom.ClassPermanent, 403, []int{20009, 20012, 40007, 50009, 50013, 50095, 150006, 160002, 160005, 200000, 240000, 987654}},
		{mailroom.ClassPermanent, 400, []int{0, 20022, 30046, 40058, 50003, 50005, 50006, 50008, 50021, 50024, 50033, 50035,
			50041, 50068, 50083, 50109, 987654}},
		{mailroom.ClassPermanent, 404, []int{10008, 10062, 987654}},
		{mailroom.ClassPermanent, 405, []int{0}},
		{mailroom.ClassPermanent, 413, []int{40005}},
		{mailroom.ClassUnavailable, 403, []int{20016, 40002, 40003, 40004, 40006, 40333}},
		{mailroom.ClassUnavailable, 400, []int{20028, 20029, 40062, 110001, 130000}},
		{mailroom.ClassUnavailable, 401, []int{0, 40001, 50014}},
		{channeltest.ClassUnknown, 500, []int{0, 50035}},
		{channeltest.ClassUnknown, 503, []int{130000}},
	} {
		for _, code := range c.codes {
			seen++
			dc.Fail(discordtest.Send, discordtest.Fault{Status: c.status, Code: strconv.Itoa(code), Message: "because"})
			if _, err := p.Send(t.Context(), room(ann.Private()), chat.Message{Text: "x"},
				""); channeltest.SendClass(err) != c.want {
				t.Errorf("%d, %d is %s, want %s: %v", c.status, code, channeltest.SendClass(err), c.want, err)
			}
		}
	}
	if n := len(dc.Calls(discordtest.Me)); n != 3 {
		t.Errorf("the token was checked %d times, want once for each error that blames it", n)
	}
	if s := fx.State(); s.Condition != channel.ConditionConnected || s.Adapter != 1 {
		t.Errorf("state %+v after %d refusals", s, seen)
	}
	if _, err := p.Send(t.Context(), room(bob.Private()), chat.Message{Text: "after"}, ""); err != nil {
		t.Errorf("a message to another person: %v", err)
	}
	bob.Sends(bob.Private(), "still there?")
	fx.AwaitTexts("still there?")
}
