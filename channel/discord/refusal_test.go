package discord_test

import (
	"testing"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/discord/discordtest"
)

// TestNoErrorOfAConversationEndsTheBot answers a message to one person with what
// Discord documents that a message can be answered with (JSON Error Codes,
// https://docs.discord.com/developers/topics/opcodes-and-status-codes): the reply gets
// the class that the error has, and the channel stays connected.
func TestNoErrorOfAConversationEndsTheBot(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, bob := dc.Person("Ann"), dc.Person("Bob")
	w := newAlone(t, dc).run()
	p := w.connected()
	seen := 0
	for _, c := range []struct {
		want   mailroom.Class
		status int
		codes  []int
	}{
		{gone, 404, []int{10003, 10004, 10013}},
		{gone, 403, []int{50001, 50007, 50278}},
		{mailroom.ClassPermanent, 403, []int{20009, 20012, 40007, 50009, 50013, 50095, 150006, 160002, 160005, 200000, 240000, 987654}},
		{mailroom.ClassPermanent, 400, []int{0, 20022, 30046, 40058, 50003, 50005, 50006, 50008, 50021, 50024, 50033, 50035, 50041, 50068, 50083, 50109, 987654}},
		{mailroom.ClassPermanent, 404, []int{10008, 10062, 987654}},
		{mailroom.ClassPermanent, 405, []int{0}},
		{mailroom.ClassPermanent, 413, []int{40005}},
		{mailroom.ClassUnavailable, 403, []int{20016, 40002, 40003, 40004, 40006, 40333}},
		{mailroom.ClassUnavailable, 400, []int{20028, 20029, 40062, 110001, 130000}},
		{mailroom.ClassUnavailable, 401, []int{0, 40001, 50014}},
		{unknown, 500, []int{0, 50035}},
		{unknown, 503, []int{130000}},
	} {
		for _, code := range c.codes {
			seen++
			dc.Fail(discordtest.Send, discordtest.Fault{Status: c.status, Code: code, Words: "because"})
			if _, err := p.Send(t.Context(), room(ann.Private()), chat.Message{Text: "x"}, ""); class(err) != c.want {
				t.Errorf("%d, %d is %s, want %s: %v", c.status, code, class(err), c.want, err)
			}
		}
	}
	if n := len(dc.Calls(discordtest.Me)); n != 3 {
		t.Errorf("whose token it is was asked %d times, want once for each refusal of it", n)
	}
	if s := w.runner.State(); s.Condition != channel.ConditionConnected || s.Adapter != 1 {
		t.Errorf("the channel is %+v after %d refusals", s, seen)
	}
	if _, err := p.Send(t.Context(), room(bob.Private()), chat.Message{Text: "after"}, ""); err != nil {
		t.Errorf("a message to another person: %v", err)
	}
	bob.Says(bob.Private(), "still there?")
	w.reads("still there?")
}
