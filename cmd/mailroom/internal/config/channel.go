package config

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"mailroom/channel/poll"
	"mailroom/internal/nearest"
)

// Channel is one [channels.NAME] table.
type Channel struct {
	Kind      string // one of ChannelKinds
	Agent     string // that reads its messages
	TokenEnv  string // name of the variable that holds the token
	TokenFile string // or the file that does
	Pace

	// Of poll.
	URL       string // of the platform
	Workspace string
	Interval  time.Duration

	Chat // of every kind but poll
	IRC
	Telegram

	token string // of TokenEnv; no setting, and never shown
}

// Pace is how a channel is kept going.
type Pace struct {
	RetryFirst  time.Duration
	RetryMost   time.Duration
	Attempts    int // 0: it is never parked
	ProbeEvery  time.Duration
	GiveUpAfter int // 0: never
}

// What a server does when no channel is connected or may be again by itself.
const (
	Stay = "stay"
	Exit = "exit"
)

func defaultPace() Pace {
	return Pace{RetryFirst: 30 * time.Second, RetryMost: 5 * time.Minute, Attempts: 20, ProbeEvery: 15 * time.Minute}
}

func (p *Pace) settings() []setting {
	const day = 24 * time.Hour
	return []setting{
		{"retry_first", "Pause after a try to connect that failed, doubled after each further one.", duration(&p.RetryFirst, 10*time.Millisecond, day)},
		{"retry_most", "Longest such pause.", duration(&p.RetryMost, 10*time.Millisecond, day)},
		{"attempts", "Tries in a row that may fail before it is parked: it needs attention and is tried now and then; 0 is any number.", number(&p.Attempts, 0, 1_000_000)},
		{"probe_every", "How often a parked channel is tried.", duration(&p.ProbeEvery, 10*time.Millisecond, 7*day)},
		{"give_up_after", "Tries in a row that may fail before it is not tried any more; 0 is any number.", number(&p.GiveUpAfter, 0, 1_000_000)},
	}
}

// pace are the settings of the table of all channels.
func (c *Config) pace() []setting {
	return append([]setting{
		{"when_all_down", "What the server does when no channel is connected or may be again by itself: stay, or exit with code 75 (start it again) or 78 (mend the configuration).", oneOf(&c.WhenAllDown, Stay, Exit)},
	}, c.Pace.settings()...)
}

// pauses gives a channel what its table does not set: what the table of all channels
// sets, else what its platform is best asked with.
func (c *Config) pauses(name string, ch *Channel) {
	all, own := c.Pace, ch.Pace
	ch.Pace = all
	if platform := (poll.Options{}).Pace(); ch.Kind == KindPoll {
		if !c.set["channels.retry_first"] {
			ch.RetryFirst = platform.First
		}
		if !c.set["channels.retry_most"] {
			ch.RetryMost = max(platform.Most, ch.RetryFirst)
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

// checkPaces returns what is wrong with two numbers together.
func (c *Config) checkPaces() (found []problem) {
	check := func(key string, p Pace) {
		if p.RetryMost < p.RetryFirst {
			found = append(found, problem{key: key, what: fmt.Sprintf("%s is shorter than retry_first, %s", short(p.RetryMost), short(p.RetryFirst))})
		}
	}
	check("channels.retry_most", c.Pace)
	for _, name := range c.ChannelNames() {
		check("channels."+name+".retry_most", c.Channels[name].Pace)
	}
	return found
}

// WhenAllDownUnlessSet sets what a configuration that says nothing of it wants.
func (c *Config) WhenAllDownUnlessSet(what string) {
	if !c.set["channels.when_all_down"] {
		c.WhenAllDown = what
	}
}

// KindPoll is a platform that is asked for its messages.
const KindPoll = poll.Kind

// NewChannel returns a channel with the defaults of its kind.
func NewChannel(kind string) *Channel {
	c := &Channel{Kind: kind}
	if kind == KindPoll {
		c.Interval = poll.DefaultInterval
	} else {
		c.Chat, c.Telegram, c.IRC = defaultChat(), defaultTelegram(), defaultIRC()
	}
	return c
}

// settings are the keys that its kind knows.
func (c *Channel) settings() []setting {
	all := []setting{
		{"kind", "poll asks a workspace of an agent platform for its messages; irc and telegram are chats, with who may talk there.", oneOf(&c.Kind, ChannelKinds()...)},
		{"agent", "Agent that reads the messages.", name(&c.Agent)},
		{"token_env", "Variable of the server that holds the token or the password.", text(&c.TokenEnv)},
		{"token_file", "File that holds it instead, for its owner only.", text(&c.TokenFile)},
	}
	switch c.Kind {
	case KindPoll:
		all = append(all,
			setting{"url", "Address of the platform.", platform(&c.URL)},
			setting{"workspace", "Id of the workspace.", text(&c.Workspace)},
			setting{"interval", "How often the platform is asked for messages.", duration(&c.Interval, 10*time.Millisecond, 10*time.Minute)},
		)
	case KindIRC:
		all = append(all, c.IRC.settings()...)
	case KindTelegram:
		all = append(all, c.Telegram.settings()...)
	}
	if c.IsChat() {
		all = append(all, c.Chat.settings()...)
	}
	return append(all, c.Pace.settings()...)
}

// platform is an address. One with a password in it is not shown in an error.
func platform(p *string) value {
	v := checked(p, `an address, such as "https://platform.example.org"`, func(s string) bool {
		_, err := poll.CheckURL(s)
		return err == nil
	})
	set := v.set
	v.set = func(given any) error {
		if s, ok := given.(string); ok && strings.Contains(s, "@") {
			given = "…@…"
		}
		return set(given)
	}
	return v
}

// missing says what a channel cannot do without; "" if it is all there.
func (c *Channel) missing() string {
	switch {
	case c.Agent == "":
		return `it needs an agent, such as agent = "codex"`
	case c.Kind == KindIRC:
		return c.missingIRC()
	case c.Kind == KindPoll && c.URL == "":
		return `it needs the url of the platform, such as url = "https://platform.example.org"`
	case c.Kind == KindPoll && c.Workspace == "":
		return `it needs a workspace, by its id`
	case (c.TokenEnv == "") == (c.TokenFile == ""):
		return `it needs token_env or token_file, one of them: the token itself is in no configuration`
	}
	return ""
}

// ReadTokens takes the tokens of the channels from the environment, and returns what
// is to be warned of.
func (c *Config) ReadTokens(env func(string) string) (warnings []string) {
	for _, name := range c.ChannelNames() {
		if warning := c.Channels[name].readToken(env); warning != "" {
			warnings = append(warnings, "channel "+name+": "+warning)
		}
	}
	return warnings
}

func (c *Channel) readToken(env func(string) string) (warning string) {
	if !c.HasToken() {
		return ""
	}
	if c.TokenFile == "" {
		c.token = strings.TrimSpace(env(c.TokenEnv))
		return ""
	}
	if info, err := os.Stat(c.TokenFile); err == nil && info.Mode().Perm()&0o077 != 0 {
		warning = fmt.Sprintf("others may read the token in %s: chmod 600 %s", c.TokenFile, c.TokenFile)
	}
	return warning
}

// Token is the one that the channel works with: what ReadTokens took, or what is in
// the file now.
func (c *Channel) Token() (string, error) {
	if c.TokenFile == "" {
		if c.token == "" {
			return "", fmt.Errorf("there is no token: the variable %s is not set", c.TokenEnv)
		}
		return c.token, nil
	}
	raw, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return "", fmt.Errorf("there is no token: %w", err)
	}
	token := strings.TrimSpace(string(raw))
	if token == "" {
		return "", fmt.Errorf("there is no token: the file %s is empty", c.TokenFile)
	}
	return token, nil
}

// channels reads the tables of channels.
func (r *reader) channels(v any) {
	tables, ok := v.(map[string]any)
	if !ok {
		r.report("channels", "it is not a table; write [channels.NAME]")
		return
	}
	all, known := map[string]any{}, []string{}
	for _, s := range r.config.pace() {
		known = append(known, s.key)
	}
	for _, name := range sorted(tables) {
		key := "channels." + name
		table, ok := tables[name].(map[string]any)
		switch {
		case slices.Contains(known, name):
			all[name] = tables[name]
			continue
		case !ok && nearest.Word(name, known) != "":
			r.report(key, fmt.Sprintf("unknown key (did you mean %q?)", nearest.Word(name, known)))
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
	r.table("channels.", all, r.config.pace())
}

// ChannelNames are the names of the channels, in order.
func (c *Config) ChannelNames() []string { return slices.Sorted(maps.Keys(c.Channels)) }

// AddChannel adds a channel, as flags do.
func (c *Config) AddChannel(name string, ch *Channel) {
	c.Channels[name] = ch
	c.pauses(name, ch)
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

// ListenUnlessSet sets the address for a configuration that names none.
func (c *Config) ListenUnlessSet(addr string) {
	if !c.set["listen"] {
		c.Listen = addr
	}
}
