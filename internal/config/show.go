package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
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
		fmt.Fprintf(&b, "\n[agents.%s]\n", tomlKey(name))
		c.table(&b, "agents."+name+".", c.Agents[name].settings(), reveal)
	}
	b.WriteString("\n[channels]\n")
	c.table(&b, "channels.", c.channelDefaults(), reveal)
	for _, name := range c.ChannelNames() {
		fmt.Fprintf(&b, "\n[channels.%s]\n", tomlKey(name))
		c.table(&b, "channels."+name+".", c.Channels[name].settings(), reveal)
	}
	c.trackerTable(&b)
	return b.String()
}

func (c *Config) table(b *strings.Builder, prefix string, settings []setting, reveal bool) {
	for _, s := range settings {
		from := "default"
		if c.set[prefix+s.key] {
			from = "set"
		}
		fmt.Fprintf(b, "\n# %s (%s)\n%s = %s\n", s.doc, from, s.key, tomlValue(displayValue(s.value, reveal)))
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
		object[s.key] = displayValue(s.value, reveal)
	}
	limits := map[string]any{}
	for _, s := range c.Limits.settings() {
		limits[s.key] = s.value.get()
	}
	object["limits"] = limits
	agents := map[string]any{}
	for name, a := range c.Agents {
		table := map[string]any{}
		for _, s := range a.settings() {
			table[s.key] = displayValue(s.value, reveal)
		}
		agents[name] = table
	}
	object["agents"] = agents
	channels := map[string]any{}
	for _, s := range c.channelDefaults() {
		channels[s.key] = s.value.get()
	}
	for name, ch := range c.Channels {
		table := map[string]any{}
		for _, s := range ch.settings() {
			table[s.key] = displayValue(s.value, reveal)
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

func displayValue(v value, reveal bool) any {
	got := v.get()
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

func tomlValue(v any) string {
	switch v := v.(type) {
	case string:
		return tomlText(v)
	case []string:
		texts := make([]string, len(v))
		for i, s := range v {
			texts[i] = tomlText(s)
		}
		return "[" + strings.Join(texts, ", ") + "]"
	case map[string]string:
		var texts []string
		for _, k := range sorted(v) {
			texts = append(texts, tomlKey(k)+" = "+tomlText(v[k]))
		}
		if len(texts) == 0 {
			return "{}"
		}
		return "{ " + strings.Join(texts, ", ") + " }"
	}
	return fmt.Sprint(v)
}

func tomlKey(k string) string {
	bare := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
	}
	if k != "" && !strings.ContainsFunc(k, func(r rune) bool { return !bare(r) }) {
		return k
	}
	return tomlText(k)
}

// tomlText quotes s. TOML has Go's escapes except \a, \v and \x.
func tomlText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == 0x7f:
			b.WriteString(`\u00` + strconv.FormatInt(0x100+int64(r), 16)[1:])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
