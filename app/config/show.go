package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mailroom/internal/setting"
)

const hidden = "(hidden)"

// TOML formats the effective settings as a valid configuration file, each with its
// documentation and its source. It hides the values of env unless reveal is set, because
// people paste the output into bug reports.
func (c *Config) TOML(reveal bool) string {
	var b strings.Builder
	switch {
	case c.file != "":
		fmt.Fprintf(&b, "# From %s and defaults.\n", c.file)
	case len(c.variables) == 0:
		b.WriteString("# No configuration file: all defaults.\n")
	default:
		b.WriteString("# No configuration file.\n")
	}
	b.WriteString("# The variable MAILROOM_LISTEN overrides listen, MAILROOM_LIMITS_BODY overrides body in [limits], " +
		"and so on.\n")
	for _, section := range c.sections() {
		prefix := ""
		if len(section.path) > 0 {
			prefix = strings.Join(section.path, ".") + "."
			section.path[len(section.path)-1] = setting.TOMLKey(section.path[len(section.path)-1])
			fmt.Fprintf(&b, "\n[%s]\n", strings.Join(section.path, "."))
		}
		for _, s := range section.settings {
			if isOldName(prefix + s.Key) {
				continue
			}
			from := "default"
			if variable := c.variables[prefix+s.Key]; variable != "" {
				from = "from " + variable
			} else if c.set[prefix+s.Key] {
				from = "set"
			}
			fmt.Fprintf(&b, "\n# %s (%s)\n%s = %s\n", s.Doc, from, s.Key, setting.TOML(displayValue(s.Value, reveal)))
		}
	}
	return b.String()
}

// section is a table of the file.
type section struct {
	path     []string // keys that lead to the table, such as agents and a name; empty for the top level
	settings []setting.Setting
}

// sections returns the tables in the order in which they are printed, without the tables that the configured store
// does not use.
func (c *Config) sections() []section {
	all := c.allSections()
	if c.Store.Kind == StorePostgres {
		return all
	}
	return slices.DeleteFunc(all, func(s section) bool {
		return len(s.path) == 1 && slices.Contains([]string{"postgres", "bus", "node"}, s.path[0])
	})
}

func (c *Config) allSections() []section {
	all := []section{
		{nil, c.settings()}, {[]string{"store"}, c.Store.settings()},
		{[]string{"postgres"}, c.Postgres.settings()}, {[]string{"bus"}, c.Bus.settings()},
		{[]string{"node"}, c.Node.settings()},
	}
	all = append(all, section{[]string{"server"}, c.Server.settings()}, section{[]string{"token"}, c.Token.settings()},
		section{[]string{"retry"}, retrySettings(&c.Retry)}, section{[]string{"limits"}, c.Limits.settings()})
	for _, name := range sorted(c.Agents) {
		all = append(all, section{[]string{"agents", name}, c.Agents[name].settings()})
	}
	all = append(all, section{[]string{"channels"}, c.channelDefaults()})
	for _, name := range c.ChannelNames() {
		all = append(all, section{[]string{"channels", name}, c.Channels[name].settings()})
	}
	if c.Tracker != nil {
		all = append(all, section{[]string{"tracker"}, c.Tracker.settings()})
	}
	for _, name := range c.BoardNames() {
		all = append(all, section{[]string{"boards", name}, c.Boards[name].settings()})
	}
	for _, name := range c.TargetNames() {
		all = append(all, section{[]string{"targets", name}, c.Targets[name].settings()})
	}
	for _, name := range sorted(c.Rules) {
		all = append(all, section{[]string{"rules", name}, c.Rules[name].settings()})
	}
	for _, name := range sorted(c.Schedules) {
		all = append(all, section{[]string{"schedules", name}, c.Schedules[name].settings()})
	}
	for _, model := range sorted(c.prices) {
		all = append(all, section{[]string{"prices", model}, c.prices[model].settings()})
	}
	return all
}

// JSON formats the effective settings as one object with the keys of the file, plus "file",
// the path of the file or null.
func (c *Config) JSON(reveal bool) ([]byte, error) {
	object := map[string]any{"file": nil}
	if c.file != "" {
		object["file"] = c.file
	}
	for _, section := range c.sections() {
		table := object
		for _, key := range section.path {
			inner, ok := table[key].(map[string]any)
			if !ok {
				inner = map[string]any{}
				table[key] = inner
			}
			table = inner
		}
		for _, s := range section.settings {
			if isOldName(strings.Join(append(section.path, s.Key), ".")) {
				continue
			}
			table[s.Key] = displayValue(s.Value, reveal)
		}
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
