package adapter_test

import (
	"strings"
	"testing"

	"mailroom/channel/chat"
)

// TestAnApproverSeesInvisibleCharacters asks with invisible characters that disguise the action.
func TestAnApproverSeesInvisibleCharacters(t *testing.T) {
	w := newFixture(t).start()
	w.platform.AddEvent(chat.Event{
		Kind: chat.EventMessage, Room: PrivateRoom(boss), User: chat.User{ID: boss, Name: "B\u202eoss"},
		Text: "ask run a\u202etxt.exe\u200b",
	})
	const shown = "run a⟦U+202E⟧txt.exe⟦U+200B⟧"
	asked := w.awaitText("asks: May I " + shown + "?").Versions[0].Text
	if strings.ContainsAny(asked, "\u202e\u200b") || strings.Count(asked, shown) != 2 {
		t.Errorf("question %+q", asked)
	}
	w.platform.SendPrivate(boss, "/status")
	w.awaitText("It asks: May I " + shown + "? " + shown + " – ")
	w.platform.SendPrivate(boss, "/approve")
	w.awaitText("Approved by Name of boss: May I " + shown)
	w.awaitSettled()
	for _, s := range w.platform.Sent() {
		for _, v := range s.Versions {
			if strings.ContainsAny(v.Text, "\u202e\u200b") {
				t.Errorf("sent: %+q", v.Text)
			}
		}
	}
}
