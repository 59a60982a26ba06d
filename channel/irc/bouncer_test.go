package irc_test

import (
	"strings"
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
)

// TestABouncerRepeatsNothing has a bouncer that sends its buffer at each connection, with the times of the lines.
func TestABouncerRepeatsNothing(t *testing.T) {
	t.Parallel()
	s := newFaultyServer(t)
	o := testOptions(s.addr)
	o.Join, o.Gap, o.Fresh = []string{"#dev"}, time.Millisecond, 2*time.Second
	people := s.people(t)
	server := channeltest.NewServer(t, &channeltest.Platform{
		Kind: "irc", Dialer: func() chat.Dialer { return o.Dial }, People: people,
		Reconnect: channel.ReconnectPolicy{InitialDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond},
	})
	server.Options.Access = chat.AccessPolicy{Chats: []string{"#dev"}}
	server.Start()
	replies := func() string {
		var all []string
		for _, m := range people.Shown(channeltest.Dev) {
			all = append(all, m.Text)
		}
		return strings.Join(all, "\n")
	}
	await := func(text string) {
		t.Helper()
		server.Await("the answer to "+text, func() bool { return strings.Contains(replies(), text) })
	}
	connected := func(adapters int) {
		t.Helper()
		server.Await("a connection", func() bool {
			now := server.State()
			return now.Condition == channel.ConditionConnected && now.Adapter >= adapters
		})
	}
	connected(1)
	const first = "@time=2026-11-27T19:00:00.000Z :al!u@h PRIVMSG #dev :bot: do it"
	s.send(t, first)
	await("do it")
	for adapters := 2; adapters <= 3; adapters++ {
		s.disconnect()
		connected(adapters)
		s.send(t, "@time=2026-11-20T19:00:00.000Z :al!u@h PRIVMSG #dev :bot: deploy")
		s.send(t, first)
		s.send(t, ":s BATCH +1 chathistory #dev")
		s.send(t, "@batch=1;time="+time.Now().UTC().Format(time.RFC3339Nano)+" :al!u@h PRIVMSG #dev :bot: in a batch")
		s.send(t, ":s BATCH -1")
		s.send(t, "@time="+time.Now().UTC().Format(time.RFC3339Nano)+" :al!u@h PRIVMSG #dev :bot: go on "+
			strings.Repeat("!", adapters))
		await("go on " + strings.Repeat("!", adapters))
	}
	server.AwaitSettled()
	if all := replies(); strings.Count(all, "do it") != 1 || strings.Contains(all, "deploy") ||
		strings.Contains(all, "batch") {
		t.Errorf("the replies are %q", all)
	}
	server.Stop()
}
