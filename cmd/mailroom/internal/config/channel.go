package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/poll"
	"mailroom/internal/suggest"
)

// Channel is one [channels.NAME] table.
type Channel struct {
	Kind  string // one of ChannelKinds
	Agent string // that reads its messages
	Token Secret
	ReconnectSettings
	Chat     // of kinds on which people talk
	Platform // of its kind
}

// ReconnectSettings is how a channel is kept going.
type ReconnectSettings struct {
	RetryFirst  time.Duration
	RetryMost   time.Duration
	Attempts    int // 0: it is never parked
	ProbeEvery  time.Duration
	GiveUpAfter int // 0: never
}

// What a server does when no channel is connected or may be again by itself.
const (
	AllDownStay = "stay"
	AllDownExit = "exit"
)

func defaultReconnect() ReconnectSettings {
	return ReconnectSettings{RetryFirst: 30 * time.Second, RetryMost: 5 * time.Minute, Attempts: 20, ProbeEvery: 15 * time.Minute}
}

func (p *ReconnectSettings) settings() []setting {
	const day = 24 * time.Hour
	return []setting{
		{"retry_first", "Pause after a try to connect that failed, doubled after each further one.", duration(&p.RetryFirst, 10*time.Millisecond, day)},
		{"retry_most", "Longest such pause.", duration(&p.RetryMost, 10*time.Millisecond, day)},
		{"attempts", "Tries in a row that may fail before it is parked: it needs attention and is tried now and then; 0 is any number.", number(&p.Attempts, 0, 1_000_000)},
		{"probe_every", "How often a parked channel is tried.", duration(&p.ProbeEvery, 10*time.Millisecond, 7*day)},
		{"give_up_after", "Tries in a row that may fail before it is not tried any more; 0 is any number.", number(&p.GiveUpAfter, 0, 1_000_000)},
	}
}

// channelDefaults are the settings of the table of all channels.
func (c *Config) channelDefaults() []setting {
	return append([]setting{
		{"when_all_down", "What the server does when no channel is connected or may be again by itself: stay, or exit with code 75 (start it again) or 78 (mend the configuration).", oneOf(&c.WhenAllDown, AllDownStay, AllDownExit)},
	}, c.ReconnectSettings.settings()...)
}

// inheritReconnect gives a channel what its table does not set: what the table of all channels
// sets, else what its platform is best asked with.
func (c *Config) inheritReconnect(name string, ch *Channel) {
	all, own := c.ReconnectSettings, ch.ReconnectSettings
	ch.ReconnectSettings = all
	if platform := (poll.Options{}).ReconnectPolicy(); ch.Kind == KindPoll {
		if !c.set["channels.retry_first"] {
			ch.RetryFirst = platform.InitialDelay
		}
		if !c.set["channels.retry_most"] {
			ch.RetryMost = max(platform.MaxDelay, ch.RetryFirst)
		}
	}
	for key, take := range map[string]func(){
		"retry_first": func() { ch.RetryFirst = own.RetryFirst }, "retry_most": func() { ch.RetryMost = own.RetryMost },
		"attempts": func() { ch.Attempts = own.Attempts }, "probe_every": func() { ch.ProbeEvery = own.ProbeEvery },
		"give_up_after": func() { ch.GiveUpAfter = own.GiveUpAfter },
	} {
		if c.set["channels."+name+"."+key] {
			take()
		}
	}
	if !c.set["channels."+name+".retry_most"] {
		ch.RetryMost = max(ch.RetryMost, ch.RetryFirst)
	}
}

// checkReconnect returns what is wrong with two numbers together.
func (c *Config) checkReconnect() (found []problem) {
	check := func(key string, p ReconnectSettings) {
		if p.RetryMost < p.RetryFirst {
			found = append(found, problem{key: key, what: fmt.Sprintf("%s is shorter than retry_first, %s", formatDuration(p.RetryMost), formatDuration(p.RetryFirst))})
		}
	}
	check("channels.retry_most", c.ReconnectSettings)
	for _, name := range c.ChannelNames() {
		check("channels."+name+".retry_most", c.Channels[name].ReconnectSettings)
	}
	return found
}

// DefaultWhenAllDown sets what a configuration that says nothing of it wants.
func (c *Config) DefaultWhenAllDown(what string) {
	if !c.set["channels.when_all_down"] {
		c.WhenAllDown = what
	}
}

// NewChannel returns a channel with the defaults of its kind.
func NewChannel(kind string) *Channel {
	c := &Channel{Kind: kind}
	if p := platforms()[kind]; p != nil {
		c.Platform = p()
	}
	if c.IsChat() {
		c.Chat = defaultChat()
	}
	return c
}

// IsChat reports whether people talk on the channel.
func (c *Channel) IsChat() bool {
	_, is := c.Platform.(ChatPlatform)
	return is
}

// Dial connects to the platform of a channel on which people talk.
func (c *Channel) Dial() (chat.Dialer, channel.ReconnectPolicy) {
	return c.Platform.(ChatPlatform).Dial(c)
}

// Secrets are all that it has.
func (c *Channel) Secrets() []*Secret {
	all := []*Secret{&c.Token}
	if g, is := c.Platform.(SecretHolder); is {
		all = append(all, g.Secrets()...)
	}
	return all
}

// settings are the keys that its kind knows.
func (c *Channel) settings() []setting {
	all := []setting{
		{"kind", "poll asks a workspace of an agent platform for its messages; the others are chats, with who may talk there.", oneOf(&c.Kind, ChannelKinds()...)},
		{"agent", "Agent that reads the messages.", name(&c.Agent)},
	}
	all = append(all, c.Token.settings("token", "the token or the password")...)
	if c.Platform != nil {
		all = append(all, c.Platform.settings()...)
	}
	if c.IsChat() {
		all = append(all, c.Chat.settings()...)
	}
	return append(all, c.ReconnectSettings.settings()...)
}

// missing says what a channel cannot do without; "" if it is all there.
func (c *Channel) missing() string {
	if c.Agent == "" {
		return `it needs an agent, such as agent = "codex"`
	}
	return c.Platform.missing(c)
}

// CheckTokens refuses two channels of one kind that would receive the messages of one bot: a
// platform hands each message to one of its connections, or to both. It needs ReadTokens.
func (c *Config) CheckTokens() error {
	first := map[string]string{} // names of channels by kind and token
	for _, name := range c.ChannelNames() {
		ch := c.Channels[name]
		switch ch.Kind {
		case KindDiscord, KindMatrix, KindSlack, KindTelegram:
		default:
			continue // a password can be that of several networks
		}
		token, err := ch.Token.Get()
		if err != nil {
			continue // the channel says so when it connects
		}
		key := ch.Kind + " " + token
		if other := first[key]; other != "" {
			return fmt.Errorf("channels %s and %s have the same token: each needs a bot of its own, or remove one of them", other, name)
		}
		first[key] = name
	}
	return nil
}

// ReadTokens takes the tokens of the channels from the environment, and returns what
// is to be warned of.
func (c *Config) ReadTokens(env func(string) string) (warnings []string) {
	for _, name := range c.ChannelNames() {
		for _, s := range c.Channels[name].Secrets() {
			if warning := s.read(env); warning != "" {
				warnings = append(warnings, "channel "+name+": "+warning)
			}
		}
	}
	return warnings
}

// channels reads the tables of channels.
func (r *reader) channels(v any) {
	tables, ok := v.(map[string]any)
	if !ok {
		r.report("channels", "it is not a table; write [channels.NAME]")
		return
	}
	all, known := map[string]any{}, []string{}
	for _, s := range r.config.channelDefaults() {
		known = append(known, s.key)
	}
	for _, name := range sorted(tables) {
		key := "channels." + name
		table, ok := tables[name].(map[string]any)
		switch {
		case slices.Contains(known, name):
			all[name] = tables[name]
			continue
		case !ok && suggest.Word(name, known) != "":
			r.report(key, fmt.Sprintf("unknown key (did you mean %q?)", suggest.Word(name, known)))
			continue
		case !ok:
			r.report(key, fmt.Sprintf("%q is not a table; write [channels.NAME] with the settings of one channel", name))
			continue
		case !validName(name):
			r.report(key, "a name has 1 to 64 letters, digits, dots, dashes and underscores")
			continue
		case table["kind"] == nil:
			r.report(key, "it needs a kind: "+strings.Join(ChannelKinds(), ", "))
			continue
		}
		c := NewChannel("")
		if err := c.settings()[0].value.set(table["kind"]); err != nil {
			r.report(key+".kind", err.Error())
			continue
		}
		c = NewChannel(c.Kind)
		before := len(r.problems)
		r.table(key+".", table, c.settings())
		if len(r.problems) > before {
			continue
		}
		if what := c.missing(); what != "" {
			r.report(key, what)
			continue
		}
		r.config.Channels[name] = c
	}
	r.table("channels.", all, r.config.channelDefaults())
}

// ChannelNames are the names of the channels, in order.
func (c *Config) ChannelNames() []string { return slices.Sorted(maps.Keys(c.Channels)) }

// AddChannel adds a channel, as flags do.
func (c *Config) AddChannel(name string, ch *Channel) {
	c.Channels[name] = ch
	c.inheritReconnect(name, ch)
}

// AddCommand makes a command an agent, as flags do.
func (c *Config) AddCommand(name string, command []string) error {
	if !validName(name) {
		return fmt.Errorf("%q is no name of an agent: 1 to 64 letters, digits, dots, dashes and underscores", name)
	}
	a := newAgent(KindExec)
	a.Command = command
	c.Agents[name] = a
	c.inherit()
	return nil
}

// DefaultListen sets the address for a configuration that names none.
func (c *Config) DefaultListen(addr string) {
	if !c.set["listen"] {
		c.Listen = addr
	}
}
