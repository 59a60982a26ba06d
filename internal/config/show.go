package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"mailroom/internal/setting"
)

const hidden = "(hidden)"

// TOML formats the effective settings as a valid configuration file, each with its
// documentation and its source. It hides the values of env unless reveal is set, because
// people paste the output into bug reports.
func (c *Config) TOML(reveal bool) string {
	var b strings.Builder
	if c.file == "" {
		b.WriteString("# No configuration file: all defaults.\n")
	} else {
		fmt.Fprintf(&b, "# From %s and defaults.\n", c.file)
	}
	c.table(&b, "", c.settings(), reveal)
	b.WriteString("\n[limits]\n")
	c.table(&b, "limits.", c.Limits.settings(), reveal)
	for _, name := range sorted(c.Agents) {
		fmt.Fprintf(&b, "\n[agents.%s]\n", setting.TOMLKey(name))
		c.table(&b, "agents."+name+".", c.Agents[name].settings(), reveal)
	}
	b.WriteString("\n[channels]\n")
	c.table(&b, "channels.", c.channelDefaults(), reveal)
	for _, name := range c.ChannelNames() {
		fmt.Fprintf(&b, "\n[channels.%s]\n", setting.TOMLKey(name))
		c.table(&b, "channels."+name+".", c.Channels[name].settings(), reveal)
	}
	c.trackerTable(&b)
	return b.String()
}

func (c *Config) table(b *strings.Builder, prefix string, settings []setting.Setting, reveal bool) {
	for _, s := range settings {
		from := "default"
		if c.set[prefix+s.Key] {
			from = "set"
		}
		fmt.Fprintf(b, "\n# %s (%s)\n%s = %s\n", s.Doc, from, s.Key, setting.TOML(displayValue(s.Value, reveal)))
	}
}

// JSON formats the effective settings as one object with the keys of the file, plus "file",
// the path of the file or null.
func (c *Config) JSON(reveal bool) ([]byte, error) {
	object := map[string]any{"file": nil}
	if c.file != "" {
		object["file"] = c.file
	}
	for _, s := range c.settings() {
		object[s.Key] = displayValue(s.Value, reveal)
	}
	limits := map[string]any{}
	for _, s := range c.Limits.settings() {
		limits[s.Key] = s.Value.Get()
	}
	object["limits"] = limits
	agents := map[string]any{}
	for name, a := range c.Agents {
		table := map[string]any{}
		for _, s := range a.settings() {
			table[s.Key] = displayValue(s.Value, reveal)
		}
		agents[name] = table
	}
	object["agents"] = agents
	channels := map[string]any{}
	for _, s := range c.channelDefaults() {
		channels[s.Key] = s.Value.Get()
	}
	for name, ch := range c.Channels {
		table := map[string]any{}
		for _, s := range ch.settings() {
			table[s.Key] = displayValue(s.Value, reveal)
		}
		channels[name] = table
	}
	object["channels"] = channels
	if t := c.trackerObject(); t != nil {
		object["tracker"] = t
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(object); err != nil {
		return nil, fmt.Errorf("encode the configuration: %w", err)
	}
	return b.Bytes(), nil
}

func displayValue(v setting.Value, reveal bool) any {
	got := v.Get()
	if table, ok := got.(map[string]string); ok {
		for k := range table {
			if !reveal {
				table[k] = hidden
			}
		}
		return table
	}
	return got
}
