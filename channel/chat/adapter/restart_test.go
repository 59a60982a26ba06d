package adapter_test

import (
	"fmt"
	"slices"
	"testing"

	"mailroom"
)

// TestOldRepliesAreNotSentAgain restarts a server with many old replies, on a platform that
// repeats its events.
func TestOldRepliesAreNotSentAgain(t *testing.T) {
	const many = 110
	w := newFixture(t).start()
	var want []string
	for i := range many {
		w.platform.SendPrivate(boss, fmt.Sprint("word ", i))
		want = append(want, fmt.Sprintf("word %d!", i))
	}
	w.awaitSettled()
	for n := range 3 {
		w.stop()
		if n == 1 {
			w.platform.Redeliver(0)
		}
		w.platform.SendPrivate(boss, fmt.Sprint("again ", n)) // during the outage
		want = append(want, fmt.Sprintf("again %d!", n))
		w.start()
		w.awaitText(want[len(want)-1])
		w.awaitSettled()
	}
	wantEqual(t, "sent", texts(w.platform.Sent()), want)
	wantEqual(t, "messages to the agent", len(w.awaitHeard(many+3)), many+3)
}

// TestAPositionBelongsToOneBot gives a channel the token of another bot, whose positions start at
// zero, and then the first token again.
func TestAPositionBelongsToOneBot(t *testing.T) {
	w := newFixture(t)
	first, other := w.platform, newPlatform(t)
	other.Capabilities.BotID = "bot-2"
	for i := range 5 {
		first.SendPrivate(boss, fmt.Sprint("first ", i))
	}
	w.start().awaitSettled()
	w.stop()

	w.platform = other
	other.SendPrivate(boss, "other")
	w.start().awaitSettled()
	wantEqual(t, "sent by the other bot", texts(other.Sent()), []string{"other!"})
	w.stop()

	w.platform = first
	first.SendPrivate(boss, "first 5")
	w.start().awaitSettled()
	var want []string
	for i := range 6 {
		want = append(want, fmt.Sprintf("first %d!", i))
	}
	wantEqual(t, "sent by the first bot", texts(first.Sent()), want)
	wantEqual(t, "position of the new message", slices.Index(w.awaitHeard(7), "first 5"), 6)
}

// TestADecisionInTheChatTakesEffectWhileTheAgentIsBusy decides a ticket while another run occupies the agent's only
// slot, and a message waits behind the run that asks.
func TestADecisionInTheChatTakesEffectWhileTheAgentIsBusy(t *testing.T) {
	for _, c := range []struct{ say, want string }{{"/approve", "rm: approvedecided"}, {"/deny", "rm: denydecided"}} {
		t.Run(c.say, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			w.slots = 1
			w.start()
			w.platform.SendPrivate(boss, "ask rm")
			w.awaitText("May I rm?")
			w.platform.SendPrivate(friend, "hold") // takes the only slot
			w.awaitHeard(2)
			w.platform.SendPrivate(boss, "later")
			w.platform.SendPrivate(boss, "/status")
			w.awaitText("It asks: May I rm?")
			w.platform.SendPrivate(boss, c.say)
			w.platform.AwaitReceived()
			wantEqual(t, "the ticket", w.ticket().State, mailroom.TicketDecided)
			w.agent.release()
			w.awaitText(c.want)
			w.awaitText("later!")
			w.awaitSettled()
			wantEqual(t, "messages to the agent", w.awaitHeard(3), []string{"ask rm", "hold", "later"})
		})
	}
}
