package adapter_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// TestAChatIsAnsweredWhileOthersHang has sends to 40 chats hang.
func TestAChatIsAnsweredWhileOthersHang(t *testing.T) {
	w := newFixture(t)
	w.access.AllowAll = true
	hanging := make(chan string, 40)
	w.platform.Hook(CallSend, func(ctx context.Context, c CallArgs) error {
		if strings.HasPrefix(c.Room.Chat, "with-deaf") {
			hanging <- c.Room.Chat
			<-ctx.Done()
			return ctx.Err()
		}
		c.Do()
		return nil
	})
	w.start()
	for i := range 40 {
		w.platform.SendPrivate(fmt.Sprint("deaf ", i), "hello")
	}
	for range 40 {
		<-hanging
	}
	w.platform.SendPrivate(boss, "quick")
	w.awaitText("quick!")
}
