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
	Agent string // handles the messages
	Token Secret
	ReconnectSettings
	Chat     // used by chat kinds
	Platform // settings of the kind
}

// ReconnectSettings holds the reconnect policy of a channel.
type ReconnectSettings struct {
	RetryFirst  time.Duration
	RetryMost   time.Duration
	Attempts    int // 0: never park
	ProbeEvery  time.Duration
	GiveUpAfter int // 0: never give up
}

// Values of when_all_down: what a server does when no channel is connected and none will
// reconnect by itself.
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
		{"retry_first", "Pause after a failed connection attempt, doubled after each further failure.", duration(&p.RetryFirst, 10*time.Millisecond, day)},
		{"retry_most", "Maximum pause between connection attempts.", duration(&p.RetryMost, 10*time.Millisecond, day)},
		{"attempts", "Consecutive failures after which the channel is parked and only probed now and then; 0 is never.", number(&p.Attempts, 0, 1_000_000)},
		{"probe_every", "Interval of connection attempts of a parked channel.", duration(&p.ProbeEvery, 10*time.Millisecond, 7*day)},
		{"give_up_after", "Consecutive failures after which the channel gives up; 0 is never.", number(&p.GiveUpAfter, 0, 1_000_000)},
	}
}

// channelDefaults returns the settings in [channels], which apply to all channels.
func (c *Config) channelDefaults() []setting {
	return append([]setting{
		{"when_all_down", "What the server does when no channel is connected and none will reconnect by itself: stay, or exit with code 75 (restart it) or 78 (fix the configuration).", oneOf(&c.WhenAllDown, AllDownStay, AllDownExit)},
	}, c.ReconnectSettings.settings()...)
}

// inheritReconnect sets the values that a channel's table does not set: from [channels], else
// the defaults of its platform.
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

// checkReconnect returns the problems of retry_most and retry_first.
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

// DefaultWhenAllDown sets when_all_down unless the configuration sets it.
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

// IsChat reports whether the channel is a chat platform.
func (c *Channel) IsChat() bool {
	_, is := c.Platform.(ChatPlatform)
	return is
}

// Dial returns the dialer and the reconnect policy of a chat channel.
func (c *Channel) Dial() (chat.Dialer, channel.ReconnectPolicy) {
	return c.Platform.(ChatPlatform).Dial(c)
}

// Secrets returns all secrets of the channel.
func (c *Channel) Secrets() []*Secret {
	all := []*Secret{&c.Token}
	if g, is := c.Platform.(SecretHolder); is {
		all = append(all, g.Secrets()...)
	}
	return all
}

// settings returns the keys of a channel's table, which depend on its kind.
func (c *Channel) settings() []setting {
	all := []setting{
		{"kind", "poll polls a workspace of an agent platform; the other kinds are chat platforms with access settings.", oneOf(&c.Kind, ChannelKinds()...)},
		{"agent", "Agent that handles the messages.", name(&c.Agent)},
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

// missing returns which required setting is missing, or "".
func (c *Channel) missing() string {
	if c.Agent == "" {
		return `missing agent; set one such as agent = "codex"`
	}
	return c.Platform.missing(c)
}

// CheckTokens returns an error if two channels of one kind use the same token, because a platform
// sends each message to only one or to both connections of a bot. Call ReadTokens before it.
func (c *Config) CheckTokens() error {
	first := map[string]string{} // names of channels by kind and token
	for _, name := range c.ChannelNames() {
		ch := c.Channels[name]
		switch ch.Kind {
		case KindDiscord, KindMatrix, KindSlack, KindTelegram:
		default:
			continue // several networks can have the same password
		}
		token, err := ch.Token.Get()
		if err != nil {
			continue // the channel says so when it connects
		}
		key := ch.Kind + " " + token
		if other := first[key]; other != "" {
			return fmt.Errorf("channels %s and %s have the same token: use a separate bot for each, or remove one", other, name)
		}
		first[key] = name
	}
	return nil
}

// ReadTokens reads the channels' tokens from the environment and returns warnings about
// token files.
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
		r.report("channels", "not a table; use [channels.NAME]")
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
			r.report(key, fmt.Sprintf("%q is not a table; use [channels.NAME] for the settings of one channel", name))
			continue
		case !validName(name):
			r.report(key, "invalid name: use 1 to 64 letters, digits, dots, dashes and underscores")
			continue
		case table["kind"] == nil:
			r.report(key, "missing kind; use one of "+strings.Join(ChannelKinds(), ", "))
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

// ChannelNames returns the sorted names of the channels.
func (c *Config) ChannelNames() []string { return slices.Sorted(maps.Keys(c.Channels)) }

// AddChannel adds a channel that command flags define.
func (c *Config) AddChannel(name string, ch *Channel) {
	c.Channels[name] = ch
	c.inheritReconnect(name, ch)
}

// AddCommand adds an agent that runs a command, which command flags define.
func (c *Config) AddCommand(name string, command []string) error {
	if !validName(name) {
		return fmt.Errorf("invalid agent name %q: use 1 to 64 letters, digits, dots, dashes and underscores", name)
	}
	a := newAgent(KindExec)
	a.Command = command
	c.Agents[name] = a
	c.inherit()
	return nil
}

// DefaultListen sets the address unless the configuration sets it.
func (c *Config) DefaultListen(addr string) {
	if !c.set["listen"] {
		c.Listen = addr
	}
}
