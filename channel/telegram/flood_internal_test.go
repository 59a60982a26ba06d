package telegram

import (
	"testing"
	"time"
)

func TestFloodInASecondChatLimitsTheWholeBot(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	c := &connection{}
	for i, s := range []struct {
		at   time.Duration
		chat string
		want bool
	}{
		{0, "a", false},
		{time.Second, "a", false},
		{2 * time.Second, "b", true},
		{20 * time.Second, "c", false}, // the earlier limits have ended
	} {
		if got := c.recordFlood(s.chat, 10*time.Second, now.Add(s.at)); got != s.want {
			t.Errorf("step %d: limit of the whole bot: %t, want %t", i, got, s.want)
		}
	}
}
