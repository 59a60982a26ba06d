package irc_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/irc"
	"mailroom/channel/irc/irctest"
)

// testOptions returns options for a server on loopback.
func testOptions(addr string) irc.Options {
	return irc.Options{Server: addr, Plain: true, Nick: "bot", Fresh: 2 * time.Second}
}

// start runs a bot until the test ends.
func start(t *testing.T, o irc.Options) *channeltest.Recorder {
	t.Helper()
	return newRecorder(t, o).Start()
}

func newRecorder(t *testing.T, o irc.Options) *channeltest.Recorder {
	t.Helper()
	return channeltest.NewRecorder(t, &channeltest.Platform{Kind: irc.Kind, Dialer: func() chat.Dialer { return o.Dial }})
}

// send sends a message once the bot has joined its channels.
func send(t *testing.T, b *channeltest.Recorder, to chat.Room, text string) (err error) {
	t.Helper()
	b.Await("the channels joined", func() bool {
		_, err = b.Connection().Send(t.Context(), to, chat.Message{Text: text}, "key")
		f := new(mailroom.Failure)
		return !errors.As(err, &f) || f.Class != mailroom.ClassUnavailable || !strings.Contains(err.Error(), "not in")
	})
	return err
}

func TestAPersonAndTheBotTalkOverARealServer(t *testing.T) {
	s := irctest.Start(t)
	o := testOptions(s.Addr)
	o.Join = []string{"#dev"}
	b := start(t, o)
	b.AwaitCondition(channel.ConditionConnected)
	al := s.Connect("al", "JOIN #dev")
	al.Wait("bot")
	al.Say("bot", "hello")
	e := b.AwaitEvent(1)
	if e.User.ID != "al!~al@127.0.0.1" || e.Room != (chat.Room{Chat: e.User.ID}) || !e.Addressed {
		t.Errorf("the event is %+v", e)
	}
	if err := send(t, b, e.Room, "hello yourself"); err != nil {
		t.Error(err)
	}
	if got := al.WaitMessage("bot", ""); got != "hello yourself" {
		t.Errorf("al received %q", got)
	}
	al.Say("#dev", "bot: anyone?")
	e = b.AwaitEvent(2)
	if e.Room != (chat.Room{Chat: "#dev", Group: true}) || e.Text != "anyone?" || !e.Addressed {
		t.Errorf("the event is %+v", e)
	}
	if err := send(t, b, e.Room, "yes"); err != nil {
		t.Error(err)
	}
	if got := al.WaitMessage("bot", " PRIVMSG #dev :"); got != "yes" {
		t.Errorf("the channel received %q", got)
	}
}

// TestALineOfMaximumLengthArrivesWhole matters because servers truncate longer lines silently.
func TestALineOfMaximumLengthArrivesWhole(t *testing.T) {
	s := irctest.Start(t)
	o := testOptions(s.Addr)
	channelName := "#" + strings.Repeat("x", 49) // the longest channel name that ngircd accepts
	o.Join = []string{channelName}
	b := start(t, o)
	b.AwaitCondition(channel.ConditionConnected)
	al := s.Connect("al", "JOIN "+channelName)
	al.Wait(" 366 ")
	text := strings.Repeat("0123456789", 60)[:b.Capabilities().MaxUnits-3] + "end"
	if err := send(t, b, chat.Room{Chat: channelName, Group: true}, text); err != nil {
		t.Fatal(err)
	}
	line := al.Wait(" PRIVMSG ")
	if got := len(line) + len("\r\n"); !strings.HasSuffix(line, text) || got != 512 {
		t.Errorf("%d bytes arrive: %s", got, line)
	}
	// A longer text is split into two lines.
	if err := send(t, b, chat.Room{Chat: channelName, Group: true}, text+"more"); err != nil {
		t.Fatal(err)
	}
	if got := al.WaitMessage("bot", "") + al.WaitMessage("bot", ""); got != text+"more" {
		t.Errorf("al received %q", got)
	}
}

func TestARestartedServerIsReconnected(t *testing.T) {
	s := irctest.Start(t)
	o := testOptions(s.Addr)
	o.Join = []string{"#dev"}
	b := start(t, o)
	b.AwaitCondition(channel.ConditionConnected)
	s.Kill()
	if state := b.AwaitCondition(channel.ConditionQueued); state.Reason == "" {
		t.Errorf("the state is %+v", state)
	}
	s.Up()
	b.AwaitState("it is connected again", func(s channel.State) bool {
		return s.Condition == channel.ConditionConnected && s.Reconnects >= 1
	})
	al := s.Connect("al", "JOIN #dev")
	al.Say("#dev", "bot: are you there?")
	if e := b.AwaitEvent(1); e.Text != "are you there?" {
		t.Errorf("the event is %+v", e)
	}
}

// TestASilentServerIsReplaced has a connection that is open but dead.
func TestASilentServerIsReplaced(t *testing.T) {
	s := irctest.Start(t)
	p := channeltest.NewProxy(t, s.Addr)
	o := testOptions(p.Addr)
	o.Fresh = 800 * time.Millisecond
	b := newRecorder(t, o)
	b.Policy.IdleTimeout = o.ReconnectPolicy().IdleTimeout
	b.Start().AwaitConnected()
	al := s.Connect("al")
	p.BlackholeOpen()
	before := b.State()
	al.Say("bot", "lost")
	b.AwaitError("no heartbeat for ")
	// It is silent for a moment only, which may pass between two looks. A slow machine reconnects more than once.
	b.AwaitState("it is connected again", func(s channel.State) bool {
		return s.Condition == channel.ConditionConnected && s.Adapter > before.Adapter
	})
	// The server still holds the nick for the dead connection.
	b.Await("a message to its other nick", func() bool {
		al.Say(b.Capabilities().BotName, "are you there?")
		return strings.HasSuffix(b.Texts(), "are you there?")
	})
}

// TestATakenNickIsReclaimed checks that the bot uses another nick until then.
func TestATakenNickIsReclaimed(t *testing.T) {
	s := irctest.Start(t)
	other := s.Connect("bot")
	o := testOptions(s.Addr)
	o.Join = []string{"#dev"}
	b := start(t, o)
	b.AwaitCondition(channel.ConditionConnected)
	if b.Capabilities().BotName != "bot_" || b.Capabilities().BotID != "bot" {
		t.Errorf("the bot's name is %q and its id %q", b.Capabilities().BotName, b.Capabilities().BotID)
	}
	al := s.Connect("al", "JOIN #dev")
	al.Wait(" 366 ")
	al.Say("#dev", "bot: not you")
	al.Say("#dev", "bot_: you")
	if e := b.AwaitEvent(2); b.Recorded()[0].Addressed || !e.Addressed || e.Text != "you" {
		t.Errorf("events %+v", b.Recorded())
	}
	other.Line("QUIT")
	al.Wait(":bot_!~bot@127.0.0.1 NICK :bot")
	al.Say("#dev", "bot: now you")
	if e := b.AwaitEvent(3); !e.Addressed || e.Text != "now you" {
		t.Errorf("events %+v", e)
	}
}

func TestOfflineUsersGetNoMessage(t *testing.T) {
	s := irctest.Start(t)
	b := start(t, testOptions(s.Addr))
	b.AwaitCondition(channel.ConditionConnected)
	if err := send(t, b, chat.Room{Chat: "al!~al@127.0.0.1"}, "x"); !errors.Is(err, chat.ErrGone) {
		t.Errorf("an offline user: %v", err)
	}
	mallory := irctest.Connect(t, s.Addr, "mallory", "NICK al")
	mallory.Wait(" NICK ")
	if err := send(t, b, chat.Room{Chat: "al!~al@127.0.0.1"}, "for al alone"); !errors.Is(err, chat.ErrGone) {
		t.Errorf("a nick of another user: %v", err)
	}
	mallory.Line("NICK mallory")
	mallory.Wait(" NICK ")
	if said := mallory.Messages("bot"); len(said) > 0 {
		t.Errorf("the other user received %q", said)
	}
	al := s.Connect("al")
	if err := send(t, b, chat.Room{Chat: "al!~al@127.0.0.1"}, "hello"); err != nil {
		t.Errorf("an online user without a known nick: %v", err)
	}
	if got := al.WaitMessage("bot", ""); got != "hello" {
		t.Errorf("al received %q", got)
	}
	if err := send(t, b, chat.Room{Chat: "#elsewhere", Group: true}, "x"); !errors.Is(err, chat.ErrGone) {
		t.Errorf("a channel that is not joined: %v", err)
	}
}

func TestARejectedMessageFailsPermanently(t *testing.T) {
	s := irctest.Start(t)
	op := s.Connect("op", "JOIN #dev", "MODE #dev +m")
	op.Wait(" MODE ")
	o := testOptions(s.Addr)
	o.Join = []string{"#dev"}
	b := start(t, o)
	b.AwaitCondition(channel.ConditionConnected)
	err := send(t, b, chat.Room{Chat: "#dev", Group: true}, "x")
	if f := mailroom.AsFailure(err); err == nil || f.Class != mailroom.ClassPermanent ||
		!strings.Contains(err.Error(), "404") {
		t.Errorf("a moderated channel: %v", err)
	}
	op.Line("KICK #dev bot :out")
	b.AwaitError("removed from #dev")
	op.Wait(":bot!~bot@127.0.0.1 JOIN") // rejoins by itself
}

func TestABadServerPasswordIsFatal(t *testing.T) {
	s := irctest.Start(t, "[Global]", "Password = good")
	o := testOptions(s.Addr)
	password := "bad"
	o.Secrets = func() (irc.Secrets, error) { return irc.Secrets{Server: password}, nil }
	b := start(t, o)
	state := b.AwaitCondition(channel.ConditionFailed)
	if state.Adapter != 1 || strings.Contains(state.Reason, "bad") {
		t.Errorf("the state is %+v", state)
	}
	password = "good" // like a corrected password file
	b.Resume()
	b.AwaitCondition(channel.ConditionConnected)
}

func TestAnInvalidNickIsFatal(t *testing.T) {
	s := irctest.Start(t)
	o := testOptions(s.Addr)
	o.Nick = strings.Repeat("x", 17)
	if state := start(t, o).AwaitCondition(channel.ConditionFailed); !strings.Contains(state.Reason,
		"max. 16 characters") {
		t.Errorf("the state is %+v", state)
	}
}

// TestManyLinesAreNotAFlood checks that each line waits for the receipt of the previous one, so
// that none is lost and the server does not disconnect the bot.
func TestManyLinesAreNotAFlood(t *testing.T) {
	s := irctest.Start(t)
	b := start(t, testOptions(s.Addr))
	b.AwaitCondition(channel.ConditionConnected)
	al := s.Connect("al")
	al.Say("bot", "go")
	to := b.AwaitEvent(1).Room
	const many = 60
	for range many {
		if err := send(t, b, to, "line"); err != nil {
			t.Fatal(err)
		}
	}
	for range many {
		al.WaitMessage("bot", "line")
	}
	if state := b.State(); state.Adapter != 1 {
		t.Errorf("the state is %+v", state)
	}
}

func TestABanIsFatal(t *testing.T) {
	s := irctest.Start(t, "[Operator]", "Name = op", "Password = secret")
	op := s.Connect("op", "OPER op secret")
	op.Wait(" 381 ")
	op.Line("KLINE *!~bot@* 600 :no bots")
	op.Sync()
	state := start(t, testOptions(s.Addr)).AwaitCondition(channel.ConditionFailed)
	if state.Adapter != 1 || !strings.Contains(state.Reason, "banned") {
		t.Errorf("the state is %+v", state)
	}
}
