package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mailroom/channel/chat"
	"mailroom/channel/kind"
	"mailroom/internal/display"
	"mailroom/internal/reserved"
	"mailroom/internal/setting"
)

// Channel is one [channels.NAME] table.
type Channel struct {
	Kind  kind.Kind
	Agent string // handles the messages
	ReconnectSettings
	Chat     chat.Options   // used only if the kind is a chat
	Settings *kind.Settings // settings of the kind of channel
}

// ReconnectSettings holds the reconnect policy of a channel.
type ReconnectSettings struct {
	RetryFirst  time.Duration
	RetryMost   time.Duration
	Attempts    int // failures before the channel parks; 0: never park
	ProbeEvery  time.Duration
	GiveUpAfter int // failures before the channel gives up; 0: never give up
}

// Values of when_all_down: what a server does when no channel is connected and none will
// reconnect by itself.
const (
	AllDownStay = "stay"
	AllDownExit = "exit"
)

func defaultReconnect() ReconnectSettings {
	return ReconnectSettings{RetryFirst: 30 * time.Second, RetryMost: 5 * time.Minute, Attempts: 20,
		ProbeEvery: 15 * time.Minute}
}

func (p *ReconnectSettings) settings() []setting.Setting {
	const day = 24 * time.Hour
	return []setting.Setting{
		setting.New("retry_first", "Pause after a failed connection attempt, doubled after each further failure.",
			setting.Duration(&p.RetryFirst, 10*time.Millisecond, day)),
		setting.New("retry_most", "Maximum pause between connection attempts.",
			setting.Duration(&p.RetryMost, 10*time.Millisecond, day)),
		setting.New("attempts",
			"Consecutive failures after which the channel is parked and only probed now and then; 0 is never.",
			setting.Int(&p.Attempts, 0, 1_000_000)),
		setting.New("probe_every", "Interval of connection attempts of a parked or failed channel.",
			setting.Duration(&p.ProbeEvery, 10*time.Millisecond, 7*day)),
		setting.New("give_up_after", "Consecutive failures after which the channel gives up; 0 is never.",
			setting.Int(&p.GiveUpAfter, 0, 1_000_000)),
	}
}

// channelDefaults returns the settings in [channels], which apply to all channels.
func (c *Config) channelDefaults() []setting.Setting {
	return append([]setting.Setting{
		setting.New("when_all_down",
			"What the server does when no channel is connected and none will reconnect by itself: stay, or exit with code 75 "+
				"(restart it) or 78 (fix the configuration).", setting.OneOf(&c.WhenAllDown, AllDownStay, AllDownExit)),
	}, c.ReconnectSettings.settings()...)
}

// checkReconnect returns the problems of retry_most and retry_first.
func (c *Config) checkReconnect() (found []problem) {
	check := func(key string, p ReconnectSettings) {
		if p.RetryMost < p.RetryFirst {
			found = append(found,
				problem{key: key,
					what: fmt.Sprintf("%s is shorter than retry_first, %s", setting.FormatDuration(p.RetryMost),
						setting.FormatDuration(p.RetryFirst))})
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

// NewChannel returns a channel with the defaults of its kind. Its reconnect policy comes from [channels], or else
// from its kind.
func (c *Config) NewChannel(k kind.Kind) *Channel {
	ch := &Channel{Kind: k, Settings: k.New(), ReconnectSettings: c.ReconnectSettings}
	if k.Chat {
		if ch.Chat = kind.NewChat(); k.Programs {
			ch.Chat.Access.Join = 0
		}
	}
	policy := ch.Settings.ReconnectPolicy()
	if policy.InitialDelay > 0 && !c.set["channels.retry_first"] {
		ch.RetryFirst = policy.InitialDelay
	}
	if policy.MaxDelay > 0 && !c.set["channels.retry_most"] {
		ch.RetryMost = policy.MaxDelay
	}
	ch.RetryMost = max(ch.RetryMost, ch.RetryFirst)
	return ch
}

// Secrets returns the secrets of the channel, its token first.
func (c *Channel) Secrets() (all []*setting.Secret) {
	for _, s := range c.Settings.Keys {
		if s.Secret != nil && !slices.Contains(all, s.Secret) {
			all = append(all, s.Secret)
		}
	}
	return all
}

// settings returns the keys of a channel's table.
func (c *Channel) settings() []setting.Setting {
	all := []setting.Setting{
		setting.New("kind",
			"poll polls a workspace of an agent platform; the other kinds are chat platforms with access settings.",
			setting.OneOf(&c.Kind.Name, c.Kind.Name)),
		setting.New("agent", "Agent that handles the messages.", setting.AgentName(&c.Agent)).
			Require(`missing agent; set one such as agent = "codex"`),
	}
	all = append(all, c.Settings.Keys...)
	if c.Kind.Chat {
		all = append(all, kind.Chat(&c.Chat)...)
	}
	return append(all, c.ReconnectSettings.settings()...)
}

// check returns an error that says which setting is missing, or which do not fit together.
func (c *Channel) check() error {
	if err := setting.CheckRequired(c.settings()); err != nil {
		return err
	}
	if c.Settings.Check == nil {
		return nil
	}
	return c.Settings.Check()
}

// CheckTokens returns an error if two channels of one kind use the same token, because a platform sends a bot's
// messages to only one of two connections, or to both. Call ReadTokens before it.
func (c *Config) CheckTokens() error {
	first := map[string]string{} // names of channels by kind and token
	for _, name := range c.ChannelNames() {
		ch := c.Channels[name]
		if !ch.Kind.OwnToken {
			continue
		}
		token, err := ch.Secrets()[0].Get()
		if err != nil {
			continue // the channel says so when it connects
		}
		key := ch.Kind.Name + " " + token
		if other := first[key]; other != "" {
			return fmt.Errorf("channels %s and %s have the same token: use a separate bot for each, or remove one", other, name)
		}
		first[key] = name
	}
	return nil
}

// ReadTokens reads the secrets of agents, channels, boards and targets from the environment and returns warnings about
// token files.
func (c *Config) ReadTokens(env func(string) string) (warnings []string) {
	for _, name := range sorted(c.Agents) {
		if warning := c.Agents[name].PullToken.Read(env); warning != "" {
			warnings = append(warnings, "agent "+name+": "+warning)
		}
	}
	for _, name := range c.ChannelNames() {
		for _, s := range c.Channels[name].Secrets() {
			if warning := s.Read(env); warning != "" {
				warnings = append(warnings, "channel "+name+": "+warning)
			}
		}
	}
	for _, name := range c.BoardNames() {
		for _, s := range []*setting.Secret{c.Boards[name].Token, c.Boards[name].Webhook} {
			if warning := s.Read(env); warning != "" {
				warnings = append(warnings, "board "+name+": "+warning)
			}
		}
	}
	for _, name := range c.TargetNames() {
		for _, s := range c.Targets[name].Secrets() {
			if warning := s.Read(env); warning != "" {
				warnings = append(warnings, "target "+name+": "+warning)
			}
		}
	}
	return warnings
}

// channels reads the tables of channels, after the settings of all channels.
func (r *reader) channels(tables map[string]any) {
	all, known := map[string]any{}, []string{}
	for _, s := range r.config.channelDefaults() {
		known = append(known, s.Key)
		if v, ok := tables[s.Key]; ok {
			all[s.Key] = v
		}
	}
	r.table("channels.", all, r.config.channelDefaults())
	for _, name := range sorted(tables) {
		key := "channels." + name
		table, ok := tables[name].(map[string]any)
		switch {
		case slices.Contains(known, name):
		case !ok && display.Suggest(name, known) != "":
			r.report(key, fmt.Sprintf("unknown key (did you mean %q?)", display.Suggest(name, known)))
		case reserved.ForServer(name + ":"):
			r.report(key, fmt.Sprintf("the name %q is reserved, because ids of threads begin with it: use another name", name))
		case r.named(key, name, tables[name], "channel"):
			r.channel(key, name, table)
		}
	}
}

// channel reads the table of one channel. It reads the kind first, because the kind decides which other keys exist.
func (r *reader) channel(key, name string, table map[string]any) {
	var of string
	names := r.config.kindNames()
	if table["kind"] == nil {
		r.report(key, "missing kind; use one of "+strings.Join(names, ", "))
		return
	}
	if err := setting.OneOf(&of, names...).Set(table["kind"]); err != nil {
		r.report(key+".kind", err.Error())
		return
	}
	c := r.config.NewChannel(r.config.kinds.Channels[slices.Index(names, of)])
	before := len(r.problems)
	r.table(key+".", table, c.settings())
	if len(r.problems) > before {
		return
	}
	if err := c.check(); err != nil {
		r.report(key, err.Error())
		return
	}
	if !r.config.set[key+".retry_most"] {
		c.RetryMost = max(c.RetryMost, c.RetryFirst)
	}
	r.config.Channels[name] = c
}

// kindNames returns the names of all kinds of channels.
func (c *Config) kindNames() (names []string) {
	for _, k := range c.kinds.Channels {
		names = append(names, k.Name)
	}
	return names
}

// ChannelNames returns the sorted names of the channels.
func (c *Config) ChannelNames() []string { return slices.Sorted(maps.Keys(c.Channels)) }

// AddCommand adds an agent that runs a command, which command flags define.
func (c *Config) AddCommand(name string, command []string) error {
	if !setting.ValidName(name) {
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
