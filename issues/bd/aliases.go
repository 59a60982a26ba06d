package bd

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Names from other implementations. An alias has the meaning of another flag; an ignored flag or
// command is accepted so that existing scripts work. Help lists neither; docs/tracker.md does.

// alias adds hidden names to a flag.
func alias(cmd *cobra.Command, name string, others ...string) {
	flag := cmd.Flags().Lookup(name)
	for _, other := range others {
		twin := *flag
		twin.Name, twin.Shorthand, twin.Hidden = other, "", true
		twin.Value = &aliasValue{flag}
		cmd.Flags().AddFlag(&twin)
	}
}

// aliasValue is the value of a flag under another name.
type aliasValue struct{ of *pflag.Flag }

func (s *aliasValue) String() string { return "" }
func (s *aliasValue) Type() string   { return s.of.Value.Type() }
func (s *aliasValue) Set(text string) error {
	s.of.Changed = true
	return s.of.Value.Set(text)
}

// ignoredFlags adds flags that have no effect.
func ignoredFlags(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		cmd.Flags().Bool(name, false, "accepted and ignored")
		_ = cmd.Flags().MarkHidden(name) // the flag is there
	}
}

// ignoredCommand returns a command that has no effect.
func ignoredCommand(m *Main, name, why string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: "Accepted; " + why, Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			for _, word := range args {
				m.out.json = m.out.json || word == "--json"
			}
			if m.out.json {
				return m.out.printJSON(map[string]string{"status": "not_needed", "message": why})
			}
			m.out.logf("Nothing to do: %s", why)
			return nil
		},
	}
}

// ignoredCommands returns the commands that have no effect.
func ignoredCommands(m *Main) []*cobra.Command {
	return []*cobra.Command{
		ignoredCommand(m, "daemon", "there is no daemon; each command reads and writes the file itself"),
		ignoredCommand(m, "daemons", "there is no daemon; each command reads and writes the file itself"),
		ignoredCommand(m, "hooks", "no git hooks are needed; the file in the work tree is the only copy"),
		ignoredCommand(m, "migrate", "there is no database to migrate; files of older versions are read as they are"),
	}
}
