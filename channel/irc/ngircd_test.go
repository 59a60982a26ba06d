package irc_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/irc"
	"mailroom/channel/irc/irctest"
	"mailroom/ledger"
	"mailroom/store/memory"
)

// fixture runs the platform under the real channel runner and records its events.
type fixture struct {
	*channel.Runner
	t       *testing.T
	onEvent func(ctx context.Context, p chat.Platform, e chat.Event) error

	// Owned by mu.
	mu           sync.Mutex
	events       []chat.Event
	current      chat.Platform // of the newest adapter
	capabilities chat.Capabilities
}

// recordingAdapter passes events to its fixture.
type recordingAdapter struct {
	chat.Platform
	f *fixture
}

func (a recordingAdapter) Receive(ctx context.Context) error {
	return a.Platform.Receive(ctx, "", func(ctx context.Context, e chat.Event) error {
		if err := a.f.onEvent(ctx, a.Platform, e); err != nil {
			return err
		}
		a.f.mu.Lock()
		defer a.f.mu.Unlock()
		a.f.events = append(a.f.events, e)
		return nil
	})
}

func (a recordingAdapter) Deliver(context.Context, channel.Delivery, mailroom.Session) error {
	return errors.New("nothing is delivered here")
}

// testOptions returns options for a server on loopback.
func testOptions(addr string) irc.Options {
	return irc.Options{Server: addr, Plain: true, Nick: "bot", Fresh: 2 * time.Second}
}

// start runs a bot until the test ends.
func start(t *testing.T, o irc.Options) *fixture {
	t.Helper()
	return startWith(t, o, func(context.Context, chat.Platform, chat.Event) error { return nil })
}

// startWith runs a bot whose events are passed to take.
func startWith(t *testing.T, o irc.Options, take func(ctx context.Context, p chat.Platform, e chat.Event) error) *fixture {
	t.Helper()
	b := &fixture{t: t, onEvent: take}
	pace := o.ReconnectPolicy()
	pace.InitialDelay, pace.MaxDelay, pace.ParkAfter = 20*time.Millisecond, 50*time.Millisecond, -1
	l := ledger.New(memory.New(), ledger.Options{})
	b.Runner = channel.New(channel.Options{
		Name: "net", Kind: irc.Kind, Reconnect: pace, Ledger: l, Log: slog.New(slog.DiscardHandler),
		Connect: func(ctx context.Context, link *channel.Host) (channel.Adapter, error) {
			p, traits, err := o.Dial(ctx, link)
			if err != nil {
				return nil, err
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.current, b.capabilities = p, traits
			return recordingAdapter{p, b}, nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ledgerCtx, cancelLedger := context.WithCancel(context.Background())
	var first, last sync.WaitGroup
	last.Go(func() { _ = l.Run(ledgerCtx) }) // returns when its context ends
	first.Go(func() { b.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		first.Wait()
		cancelLedger()
		last.Wait()
	})
	return b
}

func (b *fixture) platform() chat.Platform {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current
}

// waitState waits for a state of the channel.
func (b *fixture) waitState(what string, good func(s channel.State) bool) channel.State {
	b.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(irctest.WaitTimeout)
	for {
		s := b.State()
		if good(s) {
			return s
		}
		select {
		case <-tick.C:
		case <-late:
			b.t.Fatalf("condition not met in time: %s; the state is %+v, the events are %+v", what, s, b.recorded())
		}
	}
}

func (b *fixture) waitCondition(want channel.Condition) channel.State {
	b.t.Helper()
	return b.waitState("it is "+string(want), func(s channel.State) bool { return s.Condition == want })
}

func (b *fixture) recorded() []chat.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]chat.Event(nil), b.events...)
}

// waitEvent waits for the n-th event, counted from 1.
func (b *fixture) waitEvent(n int) chat.Event {
	b.t.Helper()
	b.waitState("something arrives", func(channel.State) bool { return len(b.recorded()) >= n })
	return b.recorded()[n-1]
}

// send sends a message once the bot has joined its channels.
func (b *fixture) send(to chat.Room, text string) error {
	b.t.Helper()
	for {
		_, err := b.platform().Send(b.t.Context(), to, chat.Message{Text: text}, "key")
		if f := new(mailroom.Failure); errors.As(err, &f) && f.Class == mailroom.ClassUnavailable && strings.Contains(err.Error(), "not in") {
			<-time.After(time.Millisecond) // the JOIN is not answered yet
			continue
		}
		return err
	}
}

func TestAPersonAndTheBotTalk(t *testing.T) {
	s := irctest.Start(t)
	o := testOptions(s.Addr)
	o.Join = []string{"#dev"}
	b := start(t, o)
	b.waitCondition(channel.ConditionConnected)
	al := s.Connect("al", "JOIN #dev")
	al.Wait("bot")
	al.Say("bot", "hello")
	e := b.waitEvent(1)
	if e.User.ID != "al!~al@127.0.0.1" || e.Room != (chat.Room{Chat: e.User.ID}) || !e.Addressed {
		t.Errorf("the event is %+v", e)
	}
	if err := b.send(e.Room, "hello yourself"); err != nil {
		t.Error(err)
	}
	if got := al.WaitMessage("bot", ""); got != "hello yourself" {
		t.Errorf("al received %q", got)
	}
	al.Say("#dev", "bot: anyone?")
	e = b.waitEvent(2)
	if e.Room != (chat.Room{Chat: "#dev", Group: true}) || e.Text != "anyone?" || !e.Addressed {
		t.Errorf("the event is %+v", e)
	}
	if err := b.send(e.Room, "yes"); err != nil {
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
	b.waitCondition(channel.ConditionConnected)
	al := s.Connect("al", "JOIN "+channelName)
	al.Wait(" 366 ")
	text := strings.Repeat("0123456789", 60)[:b.capabilities.MaxUnits-3] + "end"
	if err := b.send(chat.Room{Chat: channelName, Group: true}, text); err != nil {
		t.Fatal(err)
	}
	line := al.Wait(" PRIVMSG ")
	if got := len(line) + len("\r\n"); !strings.HasSuffix(line, text) || got != 512 {
		t.Errorf("%d bytes arrive: %s", got, line)
	}
	// A longer text is split into two lines.
	if err := b.send(chat.Room{Chat: channelName, Group: true}, text+"more"); err != nil {
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
	b.waitCondition(channel.ConditionConnected)
	s.Kill()
	if state := b.waitCondition(channel.ConditionQueued); state.Reason == "" {
		t.Errorf("the state is %+v", state)
	}
	s.Up()
	b.waitState("it is connected again", func(s channel.State) bool { return s.Condition == channel.ConditionConnected && s.Reconnects == 1 })
	al := s.Connect("al", "JOIN #dev")
	al.Say("#dev", "bot: are you there?")
	if e := b.waitEvent(1); e.Text != "are you there?" {
		t.Errorf("the event is %+v", e)
	}
}

// TestASilentServerIsReplaced has a connection that is open but dead.
func TestASilentServerIsReplaced(t *testing.T) {
	s := irctest.Start(t)
	p := channeltest.NewProxy(t, s.Addr)
	o := testOptions(p.Addr)
	o.Fresh = 800 * time.Millisecond
	b := start(t, o)
	b.waitCondition(channel.ConditionConnected)
	al := s.Connect("al")
	held := time.Now().Add(2 * o.Fresh) // twice the time that a response counts
	b.waitState("it stays connected while idle", func(channel.State) bool { return time.Now().After(held) })
	if state := b.State(); state.Condition != channel.ConditionConnected || state.Adapter != 1 {
		t.Fatalf("the state is %+v", state)
	}
	p.BlackholeOpen()
	lost := time.Now()
	al.Say("bot", "lost")
	state := b.waitState("it says silent", func(s channel.State) bool { return s.Condition == channel.ConditionSilent })
	if !strings.Contains(state.Reason, "no heartbeat for ") || time.Since(lost) > 5*time.Second {
		t.Errorf("after %s the state is %+v", time.Since(lost), state)
	}
	b.waitState("it is connected again", func(s channel.State) bool { return s.Condition == channel.ConditionConnected && s.Adapter == 2 })
	// The server still holds the nick for the dead connection.
	al.Say("bot_", "are you there?")
	if e := b.waitEvent(1); e.Text != "are you there?" {
		t.Errorf("the event is %+v", e)
	}
}

// TestATakenNickIsReclaimed checks that the bot uses another nick until then.
func TestATakenNickIsReclaimed(t *testing.T) {
	s := irctest.Start(t)
	other := s.Connect("bot")
	o := testOptions(s.Addr)
	o.Join = []string{"#dev"}
	b := start(t, o)
	b.waitCondition(channel.ConditionConnected)
	if b.capabilities.BotName != "bot_" || b.capabilities.BotID != "bot" {
		t.Errorf("the bot's name is %q and its id %q", b.capabilities.BotName, b.capabilities.BotID)
	}
	al := s.Connect("al", "JOIN #dev")
	al.Wait(" 366 ")
	al.Say("#dev", "bot: not you")
	al.Say("#dev", "bot_: you")
	if e := b.waitEvent(2); b.recorded()[0].Addressed || !e.Addressed || e.Text != "you" {
		t.Errorf("events %+v", b.recorded())
	}
	other.Line("QUIT")
	al.Wait(":bot_!~bot@127.0.0.1 NICK :bot")
	al.Say("#dev", "bot: now you")
	if e := b.waitEvent(3); !e.Addressed || e.Text != "now you" {
		t.Errorf("events %+v", e)
	}
}

func TestOfflineUsersGetNoMessage(t *testing.T) {
	s := irctest.Start(t)
	b := start(t, testOptions(s.Addr))
	b.waitCondition(channel.ConditionConnected)
	if err := b.send(chat.Room{Chat: "al!~al@127.0.0.1"}, "x"); !errors.Is(err, chat.ErrGone) {
		t.Errorf("an offline user: %v", err)
	}
	mallory := irctest.Connect(t, s.Addr, "mallory", "NICK al")
	mallory.Wait(" NICK ")
	if err := b.send(chat.Room{Chat: "al!~al@127.0.0.1"}, "for al alone"); !errors.Is(err, chat.ErrGone) {
		t.Errorf("a nick of another user: %v", err)
	}
	mallory.Line("NICK mallory")
	mallory.Wait(" NICK ")
	if said := mallory.Messages("bot"); len(said) > 0 {
		t.Errorf("the other user received %q", said)
	}
	al := s.Connect("al")
	if err := b.send(chat.Room{Chat: "al!~al@127.0.0.1"}, "hello"); err != nil {
		t.Errorf("an online user without a known nick: %v", err)
	}
	if got := al.WaitMessage("bot", ""); got != "hello" {
		t.Errorf("al received %q", got)
	}
	if err := b.send(chat.Room{Chat: "#elsewhere", Group: true}, "x"); !errors.Is(err, chat.ErrGone) {
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
	b.waitCondition(channel.ConditionConnected)
	err := b.send(chat.Room{Chat: "#dev", Group: true}, "x")
	if f := mailroom.AsFailure(err); err == nil || f.Class != mailroom.ClassPermanent || !strings.Contains(err.Error(), "404") {
		t.Errorf("a moderated channel: %v", err)
	}
	op.Line("KICK #dev bot :out")
	b.waitState("the reported error", func(s channel.State) bool { return strings.Contains(s.LastError, "removed from #dev") })
	op.Wait(":bot!~bot@127.0.0.1 JOIN") // rejoins by itself
}

func TestABadServerPasswordIsFatal(t *testing.T) {
	s := irctest.Start(t, "[Global]", "Password = good")
	o := testOptions(s.Addr)
	password := "bad"
	o.Secrets = func() (irc.Secrets, error) { return irc.Secrets{Server: password}, nil }
	b := start(t, o)
	state := b.waitCondition(channel.ConditionFailed)
	if state.Adapter != 1 || strings.Contains(state.Reason, "bad") {
		t.Errorf("the state is %+v", state)
	}
	password = "good" // like a corrected password file
	b.Resume()
	b.waitCondition(channel.ConditionConnected)
}

func TestAnInvalidNickIsFatal(t *testing.T) {
	s := irctest.Start(t)
	o := testOptions(s.Addr)
	o.Nick = strings.Repeat("x", 17)
	if state := start(t, o).waitCondition(channel.ConditionFailed); !strings.Contains(state.Reason, "max. 16 characters") {
		t.Errorf("the state is %+v", state)
	}
}

// TestManyLinesAreNotAFlood checks that each line waits for the receipt of the previous one, so
// that none is lost and the server does not disconnect the bot.
func TestManyLinesAreNotAFlood(t *testing.T) {
	s := irctest.Start(t)
	b := start(t, testOptions(s.Addr))
	b.waitCondition(channel.ConditionConnected)
	al := s.Connect("al")
	al.Say("bot", "go")
	to := b.waitEvent(1).Room
	const many = 60
	for range many {
		if err := b.send(to, "line"); err != nil {
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
	state := start(t, testOptions(s.Addr)).waitCondition(channel.ConditionFailed)
	if state.Adapter != 1 || !strings.Contains(state.Reason, "banned") {
		t.Errorf("the state is %+v", state)
	}
}
