package config

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"mailroom/channel/poll"
)

// Channel is one [channels.NAME] table.
type Channel struct {
	Kind      string // KindPoll
	Agent     string // that reads its messages
	URL       string // of the platform
	Workspace string
	TokenEnv  string // name of the variable that holds the token
	TokenFile string // or the file that does
	Interval  time.Duration

	token  string // that it works with; no setting, and never shown
	broken error  // why there is none
}

// KindPoll is a platform that is asked for its messages.
const KindPoll = poll.Kind

// NewChannel returns a channel with the defaults of its kind.
func NewChannel(kind string) *Channel {
	return &Channel{Kind: kind, Interval: poll.DefaultInterval}
}

func (c *Channel) settings() []setting {
	return []setting{
		{"kind", "poll asks a workspace of an agent platform for its messages.", oneOf(&c.Kind, KindPoll)},
		{"agent", "Agent that reads the messages.", name(&c.Agent)},
		{"url", "Address of the platform.", platform(&c.URL)},
		{"workspace", "Id of the workspace.", text(&c.Workspace)},
		{"token_env", "Variable of the server that holds the workspace's token.", text(&c.TokenEnv)},
		{"token_file", "File that holds it instead, for its owner only.", text(&c.TokenFile)},
		{"interval", "How often the platform is asked for messages.", duration(&c.Interval, 10*time.Millisecond, 10*time.Minute)},
	}
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
	case c.URL == "":
		return `it needs the url of the platform, such as url = "https://platform.example.org"`
	case c.Workspace == "":
		return `it needs a workspace, by its id`
	case (c.TokenEnv == "") == (c.TokenFile == ""):
		return `it needs token_env or token_file, one of them: the token itself is in no configuration`
	}
	return ""
}

// ReadTokens reads the tokens of the channels. Of one that cannot be read the
// channel knows why. It returns what is to be warned of.
func (c *Config) ReadTokens(env func(string) string) (warnings []string) {
	for _, name := range c.ChannelNames() {
		if warning := c.Channels[name].readToken(env); warning != "" {
			warnings = append(warnings, "channel "+name+": "+warning)
		}
	}
	return warnings
}

func (c *Channel) readToken(env func(string) string) (warning string) {
	if c.TokenFile == "" {
		if c.token = strings.TrimSpace(env(c.TokenEnv)); c.token == "" {
			c.broken = fmt.Errorf("there is no token: the variable %s is not set", c.TokenEnv)
		}
		return ""
	}
	raw, err := os.ReadFile(c.TokenFile)
	if err != nil {
		c.broken = fmt.Errorf("there is no token: %w", err)
		return ""
	}
	if c.token = strings.TrimSpace(string(raw)); c.token == "" {
		c.broken = fmt.Errorf("there is no token: the file %s is empty", c.TokenFile)
	}
	if info, err := os.Stat(c.TokenFile); err == nil && info.Mode().Perm()&0o077 != 0 {
		warning = fmt.Sprintf("others may read the token in %s: chmod 600 %s", c.TokenFile, c.TokenFile)
	}
	return warning
}

// Token is what ReadTokens has read.
func (c *Channel) Token() (string, error) { return c.token, c.broken }

// channels reads the tables of channels.
func (r *reader) channels(v any) {
	tables, ok := v.(map[string]any)
	if !ok {
		r.report("channels", "it is not a table; write [channels.NAME]")
		return
	}
	for _, name := range sorted(tables) {
		key := "channels." + name
		table, ok := tables[name].(map[string]any)
		switch {
		case !ok:
			r.report(key, fmt.Sprintf("%q is not a table; write [channels.NAME] with the settings of one channel", name))
			continue
		case !validName(name):
			r.report(key, "a name has 1 to 64 letters, digits, dots, dashes and underscores")
			continue
		case table["kind"] == nil:
			r.report(key, "it needs a kind: poll")
			continue
		}
		c := NewChannel("")
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
}

// ChannelNames are the names of the channels, in order.
func (c *Config) ChannelNames() []string { return slices.Sorted(maps.Keys(c.Channels)) }

// AddChannel adds a channel, as flags do.
func (c *Config) AddChannel(name string, ch *Channel) { c.Channels[name] = ch }

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
