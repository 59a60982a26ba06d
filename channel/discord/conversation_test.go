package discord_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"mailroom"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/discord/discordtest"
)

func TestThreadOfAnAllowedChannelIsItsOwnConversation(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	bob, dev, ops := dc.Person("Bob"), dc.Channel("dev"), dc.Channel("ops")
	thread, other := dev.Thread("plans", true), ops.Thread("plans", true)
	var mu sync.Mutex
	threads := map[string][]string{}
	server := channeltest.NewServer(t, newPlatform(t, dc))
	server.Options.Access = chat.AccessPolicy{Chats: []string{dev.ID}, Pairing: true}
	server.Agent = func(ctx context.Context, s mailroom.Session) error {
		input, err := s.Input(ctx)
		if err != nil {
			return err
		}
		mu.Lock()
		threads[s.Run().Thread] = append(threads[s.Run().Thread], input[0].Text)
		mu.Unlock()
		return s.Stream(ctx, "You said: "+input[0].Text)
	}
	server.Start()
	dc.WaitFor(t, "the connection of the bot", func() bool { return dc.Connections() >= 1 })
	bob.Sends(other, bot+" is anybody here?") // an unauthorized user in this channel
	bob.Sends(thread, bot+" what about this?")
	dc.WaitFor(t, "the answer", func() bool { return len(thread.Texts()) == 1 })
	bob.Sends(dev, bot+": and here?")
	bob.Sends(thread, "!status")
	bob.Sends(thread, bot+" !deny")
	dc.WaitFor(t, "the other answers", func() bool { return len(thread.Texts()) == 2 && len(dev.Texts()) == 1 })
	if m := thread.Replies(); m[0].Text != "You said: From c:"+bob.ID+" (calls themselves \"Bob\"):\n> what about this?" ||
		m[0].ReplyTo == "" || !strings.HasPrefix(m[1].Text, "Only an admin may use !deny") {
		t.Errorf("the thread has %q", thread.Texts())
	}
	mu.Lock()
	defer mu.Unlock()
	if len(threads) != 2 || len(dev.Texts()) != 1 || len(ops.Texts())+len(other.Texts()) != 0 {
		t.Errorf("conversations %q; channels %q, %q, %q", threads, dev.Texts(), ops.Texts(), other.Texts())
	}
}
