package irc

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom/channel"
	"mailroom/channel/chat"
)

// hostRecorder records the reports of a connection.
type hostRecorder struct {
	mu       sync.Mutex
	received int
	errors   []string
	held     string
}

func (l *hostRecorder) Received() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.received++
}

func (l *hostRecorder) ReportError(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors = append(l.errors, err.Error())
}

func (l *hostRecorder) ReportProgress(p channel.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = p.Blocked
}

func (l *hostRecorder) Log() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (l *hostRecorder) errorText() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.errors, "\n")
}

// newTestConnection returns a registered connection without a reader.
func newTestConnection(t testing.TB, caps ...string) *connection {
	near, far := net.Pipe()
	t.Cleanup(func() {
		if err := errors.Join(near.Close(), far.Close()); err != nil {
			t.Error(err)
		}
	})
	go discard(far) // returns when far is closed
	o := Options{Server: "s", Nick: "bot", Join: []string{"#dev", "#ops key"}}.withDefaults()
	c := newConnection(o, newWire(near), &hostRecorder{})
	r := newRegistration(o, Secrets{})
	r.server.caseMapping, r.server.caps = "ascii", caps
	c.applyRegistration(r)
	return c
}

// TestMessagesThatWereReadAreHandledAfterADisconnect has a server that sends two messages and closes the connection
// before the first one is handled.
func TestMessagesThatWereReadAreHandledAfterADisconnect(t *testing.T) {
	near, far := net.Pipe()
	c := newConnection(Options{Nick: "bot"}.withDefaults(), newWire(near), &hostRecorder{})
	c.applyRegistration(newRegistration(c.options, Secrets{}))
	over := make(chan struct{})
	go func() { // ends with the test, which waits for over
		defer close(over)
		for range 2 {
			if _, err := far.Write([]byte(":al!a@h PRIVMSG bot :hello\r\n")); err != nil {
				t.Error(err)
			}
		}
		if err := far.Close(); err != nil {
			t.Error(err)
		}
	}()
	taken := 0
	err := c.Receive(t.Context(), "", func(context.Context, chat.Event) error {
		<-over
		taken++
		return nil
	})
	if taken != 2 || err == nil || !strings.Contains(err.Error(), "connection lost") {
		t.Errorf("handled %d messages, error %v; want 2 and a lost connection", taken, err)
	}
}

func discard(c net.Conn) {
	buffer := make([]byte, 1024)
	for {
		if _, err := c.Read(buffer); err != nil {
			return
		}
	}
}

// handleLines passes lines to a connection and returns the event of the last one.
func handleLines(t *testing.T, c *connection, lines ...string) (e *chat.Event) {
	t.Helper()
	for _, line := range lines {
		m, ok := parseMessage(line)
		if !ok {
			t.Fatalf("invalid line %q", line)
		}
		var err error
		if e, err = c.handleMessage(m, time.Unix(1000, 0)); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return e
}

func TestMessagesBecomeEvents(t *testing.T) {
	al := chat.User{ID: "al!~al@host.example", Name: "Al"}
	for line, want := range map[string]*chat.Event{
		":Al!~al@host.example PRIVMSG bot :hello there": {Kind: chat.EventMessage,
			Room: chat.Room{Chat: al.ID}, User: al, Text: "hello there", Addressed: true},
		":Al!~al@host.example PRIVMSG BOT hello": {Kind: chat.EventMessage,
			Room: chat.Room{Chat: al.ID}, User: al, Text: "hello", Addressed: true},
		":Al!~al@host.example PRIVMSG #Dev :bot: do it": {Kind: chat.EventMessage,
			Room: chat.Room{Chat: "#dev", Group: true}, User: al, Text: "do it", Addressed: true},
		":Al!~al@host.example PRIVMSG #dev :the bot is new": {Kind: chat.EventMessage,
			Room: chat.Room{Chat: "#dev", Group: true}, User: al, Text: "the bot is new"},
		"@account=\xff;time=x :Al!~al@host.example PRIVMSG bot :despite a tag that is no UTF-8": {Kind: chat.EventMessage,
			Room: chat.Room{Chat: al.ID}, User: al, Text: "despite a tag that is no UTF-8", Addressed: true},
		// Lines that are not messages to the bot, or must not be answered.
		":Al!~al@host.example NOTICE bot :hello":              nil,
		":Al!~al@host.example NOTICE #dev :bot: hello":        nil,
		":Al!~al@host.example PRIVMSG bot :\x01VERSION\x01":   nil,
		":Al!~al@host.example PRIVMSG bot :\x01ACTION x\x01":  nil,
		":bot!~b@host.example PRIVMSG #dev :bot: my own echo": nil,
		":BOT!~b@host.example PRIVMSG bot :to myself":         nil,
		":irc.server PRIVMSG bot :from a server":              nil,
		":Al!~al@host.example PRIVMSG @#dev :bot: to some":    nil,
		":Al!~al@host.example PRIVMSG $$* :to all users":      nil,
		":Al!~al@host.example PRIVMSG bot :\x02\x03":          nil,
		":Al!~al@host.example PRIVMSG bot":                    nil,
		":Al!~al@host.example TAGMSG bot":                     nil,
		":Al!~al@host.example INVITE bot #dev":                nil,
		// The server has not granted account-tag, so the tag proves nothing.
		"@account=root;msgid=1 :Al!~al@host.example PRIVMSG bot :x": {Kind: chat.EventMessage, Room: chat.Room{Chat: al.ID},
			User: al, Text: "x", Addressed: true},
	} {
		got := handleLines(t, newTestConnection(t), line)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(chat.Event{}, "Key", "Position")); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}

func TestAnAccountIdentifiesAUser(t *testing.T) {
	c := newTestConnection(t, "account-tag", "message-tags", "server-time")
	got := handleLines(t, c,
		"@account=Alice;msgid=x1;time=2026-11-22T04:00:00.000Z :al_!~al@host.example PRIVMSG bot :hello")
	want := &chat.Event{
		Kind: chat.EventMessage, Key: "msgid:x1", Room: chat.Room{Chat: "alice"}, User: chat.User{ID: "alice", Name: "al_"},
		Text: "hello", Addressed: true, Position: "2026-11-22T04:00:00Z",
		Written: time.Date(2026, 11, 22, 4, 0, 0, 0, time.UTC),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := handleLines(t, c,
		"@account=* :al!~al@host.example PRIVMSG bot :hello"); got.User.ID != "al!~al@host.example" {
		t.Errorf("user id without an account: %q", got.User.ID)
	}
	if got := handleLines(t, c,
		`@account=root!r@h :al!~al@host.example PRIVMSG bot :hello`); got.User.ID != "al!~al@host.example" {
		t.Errorf("user id of an account like a nick: %q", got.User.ID)
	}
}

func TestEachMessageHasAKeyOfItsOwn(t *testing.T) {
	keys := map[string]bool{}
	c := newTestConnection(t)
	for range 3 {
		keys[handleLines(t, c, ":al!a@h PRIVMSG bot :yes").Key] = true
	}
	later := newTestConnection(t) // another connection
	later.connectedAt = c.connectedAt.Add(time.Nanosecond)
	keys[handleLines(t, later, ":al!a@h PRIVMSG bot :yes").Key] = true
	if len(keys) != 4 {
		t.Errorf("keys %v", keys)
	}
	long := newTestConnection(t, "message-tags")
	if k := handleLines(t, long, "@msgid="+strings.Repeat("x", 1000)+" :al!a@h PRIVMSG bot :yes").Key; len(k) > 200 {
		t.Errorf("the key has %d bytes", len(k))
	}
}

// TestANickWithANewOwnerIsForgotten keeps replies from reaching another person.
func TestANickWithANewOwnerIsForgotten(t *testing.T) {
	const asked = ":al!~al@home.example PRIVMSG bot :my secret?"
	for what, line := range map[string]string{
		"gone":               ":al!~al@home.example QUIT :bye",
		"renamed":            ":al!~al@home.example NICK other",
		"a new owner speaks": ":al!~mal@elsewhere.example PRIVMSG bot :hello",
		"a new owner joins":  ":al!~mal@elsewhere.example JOIN #dev",
	} {
		c := newTestConnection(t)
		handleLines(t, c, asked)
		if _, known := c.people["al!~al@home.example"]; !known {
			t.Fatal("the author is not stored")
		}
		handleLines(t, c, line)
		if _, known := c.people["al!~al@home.example"]; known {
			t.Errorf("%s: the nick still maps to the author", what)
		}
	}
	c := newTestConnection(t, "account-tag")
	handleLines(t, c, "@account=alice "+asked, ":al!~al@home.example NICK other")
	if p := c.people["alice"]; p.nick != "other" {
		t.Errorf("nick of the account: %q", p.nick)
	}
}

func TestKnownPeopleAreBounded(t *testing.T) {
	c := newTestConnection(t)
	name := func(i int) string { return "n" + strconv.Itoa(i) }
	for i := range 1200 {
		c.recordPerson(name(i)+"!a@h", name(i), time.Unix(int64(i), 0))
	}
	if len(c.people) != 1000 || c.people[name(1199)+"!a@h"].nick == "" || c.people[name(0)+"!a@h"].nick != "" {
		t.Errorf("%d people stored", len(c.people))
	}
}

func TestNickHostAndChannelsAreTracked(t *testing.T) {
	c := newTestConnection(t)
	widest := c.maxText(10)
	handleLines(t, c, ":bot!~bot@a.long.host.example JOIN :#dev")
	seen := c.maxText(10)
	handleLines(t, c, ":s 396 bot x@cloak :is now your visible host")
	if cloaked := c.maxText(10); widest >= seen || cloaked-seen != len("a.long.host.example")-len("cloak") {
		t.Errorf("maximum texts %d, %d and %d", widest, seen, cloaked)
	}
	handleLines(t, c, ":bot!~bot@cloak NICK robot")
	if e := handleLines(t, c, ":al!a@h PRIVMSG #dev :robot: hi"); !c.joined["#dev"] || e == nil || !e.Addressed {
		t.Errorf("joined %v, event %+v", c.joined, e)
	}
	handleLines(t, c, ":op!o@h KICK #dev robot :flood", ":s 474 robot #ops :Cannot join channel (+b)")
	if trouble := c.host.(*hostRecorder).errorText(); c.joined["#dev"] ||
		!strings.Contains(trouble, "removed from #dev: flood") || !strings.Contains(trouble, "#ops refused the bot (474)") {
		t.Errorf("joined %v, errors %s", c.joined, trouble)
	}
}

// TestARefusedJoinIsRetriedWithBackoff also checks that the reason is reported and other channels
// are unaffected.
func TestARefusedJoinIsRetriedWithBackoff(t *testing.T) {
	for name, x := range map[string]struct {
		answer string
		waits  []time.Duration
		shown  string
	}{
		"full": {":s 471 bot #ops :Cannot join channel (+l)",
			[]time.Duration{15, 30, 60, 120, 240, 480, 960, 1920, 3600, 3600}, "#ops: Cannot join channel (+l) (471)"},
		"invited":  {":s 473 bot #ops :Cannot join channel (+i)", []time.Duration{15, 30, 60}, "(473)"},
		"banned":   {":s 474 bot #ops :Cannot join channel (+b)", []time.Duration{15, 30, 60}, "(474)"},
		"a key":    {":s 475 bot #ops :Cannot join channel (+k)", []time.Duration{15, 30, 60}, "(475)"},
		"too many": {":s 405 bot #ops :You have joined too many channels", []time.Duration{15, 30, 60}, "(405)"},
		"for now":  {":s 437 bot #ops :Nick/channel is temporarily unavailable", []time.Duration{15, 30, 60}, "(437)"},
		"a forward": {":s 470 bot #ops ##overflow :Forwarding to another channel", []time.Duration{3600, 3600},
			"#ops: forwards to ##overflow (470)"},
		"a bad name": {":s 479 bot #ops :Illegal channel name", []time.Duration{3600, 3600}, "(479)"},
		"no answer":  {"", []time.Duration{15, 30, 60}, ""},
		"put out":    {":op!o@h KICK #ops bot :no bots", []time.Duration{15, 30, 60, 120}, "#ops: removed: no bots"},
	} {
		c := newTestConnection(t)
		now := time.Unix(1_800_000_000, 0)
		if err := c.joinChannels(now); err != nil {
			t.Fatal(err)
		}
		handleLinesAt(t, c, now, ":bot!~bot@h JOIN #dev")
		for i, wait := range x.waits {
			if x.answer != "" {
				if strings.Contains(x.answer, "KICK") {
					handleLinesAt(t, c, now, ":bot!~bot@h JOIN #ops")
				}
				handleLinesAt(t, c, now, x.answer)
			}
			ops := c.membership("#ops")
			if got := ops.nextJoin.Sub(now); got != wait*time.Second {
				t.Errorf("%s: after refusal %d the delay is %s, want %s", name, i+1, got, wait*time.Second)
			}
			if held := c.host.(*hostRecorder).held; !strings.Contains(held, x.shown) || strings.Contains(held, "#dev") {
				t.Errorf("%s: reported %q, want %q", name, held, x.shown)
			}
			before := ops.refusals
			if err := c.joinChannels(ops.nextJoin.Add(-1)); err != nil || ops.refusals != before {
				t.Errorf("%s: joined too early: %v", name, err)
			}
			now = ops.nextJoin
			if err := c.joinChannels(now); err != nil || ops.refusals != before+1 {
				t.Errorf("%s: not joined again: %v", name, err)
			}
		}
		if n := len(c.host.(*hostRecorder).errors); x.answer != "" && n != 1 && !strings.Contains(x.answer, "KICK") {
			t.Errorf("%s: the refusal was reported %d times", name, n)
		}
		handleLinesAt(t, c, now, ":bot!~bot@h JOIN #ops")
		if held := c.host.(*hostRecorder).held; held != "" {
			t.Errorf("%s: error after joining: %q", name, held)
		}
		handleLinesAt(t, c, now, ":bot!~bot@h JOIN ##overflow", ":al!a@h PRIVMSG ##overflow :bot: hi")
		if c.joined["##overflow"] {
			t.Errorf("%s: the bot stayed in the forward's target", name)
		}
	}
}

// handleLinesAt passes lines to a connection at a given time.
func handleLinesAt(t *testing.T, c *connection, now time.Time, lines ...string) {
	t.Helper()
	for _, line := range lines {
		m, ok := parseMessage(line)
		if !ok {
			t.Fatalf("invalid line %q", line)
		}
		if _, err := c.handleMessage(m, now); err != nil {
			t.Fatal(err)
		}
	}
}

// TestALineHasRoomForTextWithAnyHost uses an absurdly long host.
func TestALineHasRoomForTextWithAnyHost(t *testing.T) {
	c := newTestConnection(t)
	handleLines(t, c, ":s 396 bot "+strings.Repeat("x", 1000)+" :is now your visible host")
	if got := c.maxText(20); got != minText {
		t.Errorf("maximum text %d", got)
	}
}
