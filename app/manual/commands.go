package manual

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mailroom/app/config"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// commandList describes each command with its usage, flags and examples.
func commandList(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("\n" + paragraphs(root.Long) + "\nThese flags hold for all commands:\n\n")
	b.WriteString(flagTable(root.PersistentFlags()))
	for _, g := range root.Groups() {
		b.WriteString("\n## " + strings.TrimSuffix(g.Title, ":") + "\n")
		for _, cmd := range root.Commands() {
			if cmd.GroupID == g.ID || cmd.Name() == "help" && root.GroupID == g.ID {
				describeCommand(&b, cmd)
			}
		}
	}
	return b.String()
}

// describeCommand describes a command and the ones below it.
func describeCommand(b *strings.Builder, cmd *cobra.Command) {
	if cmd.Hidden {
		return
	}
	fmt.Fprintf(b, "\n### %s\n\n", cmd.CommandPath())
	if short := strings.TrimSuffix(cmd.Short, ".") + "."; !strings.HasPrefix(cmd.Long, short) {
		b.WriteString(prose(short) + "\n\n")
	}
	if cmd.Runnable() {
		b.WriteString(fenced("", cmd.UseLine()) + "\n")
	}
	if cmd.Long != "" {
		b.WriteString(paragraphs(cmd.Long) + "\n")
	}
	b.WriteString(flagTable(cmd.LocalNonPersistentFlags()) + "\n")
	if cmd.Example != "" {
		var lines []string
		for line := range strings.Lines(cmd.Example) {
			lines = append(lines, strings.TrimPrefix(strings.TrimRight(line, "\n"), "  "))
		}
		b.WriteString(fenced("", strings.Join(lines, "\n")) + "\n")
	}
	for _, inner := range cmd.Commands() {
		describeCommand(b, inner)
	}
}

// paragraphs returns a help text as Markdown: indented lines are code.
func paragraphs(text string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if strings.HasPrefix(part, "  ") {
			b.WriteString(fenced("", part) + "\n")
			continue
		}
		lines := strings.Split(part, "\n")
		for i, line := range lines {
			if i > 0 && strings.HasPrefix(line, "  ") { // a list within the paragraph
				b.WriteString(prose(strings.Join(lines[:i], "\n")) + "\n\n" + fenced("", strings.Join(lines[i:], "\n")) + "\n")
				lines = nil
				break
			}
		}
		if len(lines) > 0 {
			b.WriteString(prose(part) + "\n\n")
		}
	}
	return b.String()
}

func flagTable(flags *pflag.FlagSet) string {
	t, rows := newTable("flag", "meaning"), 0
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		rows++
		kind, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if kind != "" {
			name += " " + strings.ToUpper(kind)
		}
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		t.add(span(name), prose(usage))
	})
	if rows == 0 {
		return ""
	}
	return t.String()
}

// settingList describes each setting with its default, as mailroom config prints them.
func settingList() (string, error) {
	c := config.Default(config.Kinds())
	if err := c.AddCommand("NAME", []string{"my-agent"}); err != nil {
		return "", fmt.Errorf("describe the settings of an agent: %w", err)
	}
	c.AddSchedule("NAME")
	c.AddPrice("MODEL")
	one := settingsIn(c.TOML(false))
	c = config.Default(nil)
	c.Store.Kind = config.StorePostgres
	several := settingsIn(c.TOML(false))
	var b strings.Builder
	show := func(name, title string, of map[string]string) { fmt.Fprintf(&b, "\n## %s\n\n%s", title, of[name]) }
	show("", "At the top of the file", one)
	for _, name := range []string{"store", "server", "token", "limits", "retry"} {
		show(name, span("["+name+"]"), one)
	}
	for _, name := range []string{"postgres", "bus", "node"} {
		show(name, span("["+name+"]"), several)
	}
	show("agents.NAME", "`[agents.NAME]`, for a command", one)
	show("channels", "`[channels]`, for all channels", one)
	show("schedules.NAME", "`[schedules.NAME]`, for a [schedule](../guides/schedules.md)", one)
	show("prices.MODEL", "`[prices.\"MODEL\"]`, for the [price](../guides/budgets.md#prices) of a model", one)
	return b.String(), nil
}

// settingsIn returns the tables of settings in the output of mailroom config, by the name of their section. A setting
// is a comment with its meaning and source, and a line with its value.
func settingsIn(toml string) map[string]string {
	all := map[string]string{}
	name, doc := "", ""
	t := newTable("setting", "default", "meaning")
	for line := range strings.Lines(toml) {
		line = strings.TrimSpace(line)
		key, value, set := strings.Cut(line, " = ")
		switch {
		case strings.HasPrefix(line, "["):
			all[name] = t.String()
			name, t = strings.Trim(line, "[]"), newTable("setting", "default", "meaning")
		case strings.HasPrefix(line, "# "):
			doc = strings.TrimPrefix(line, "# ")
			if at := strings.LastIndex(doc, " ("); at >= 0 {
				doc = doc[:at]
			}
		case set && doc != "":
			t.add(span(key), span(value), prose(doc))
			doc = ""
		}
	}
	all[name] = t.String()
	return all
}
