package bd

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Words of other implementations that agents are used to. An alias means what another
// word means; an idle one means nothing here, and is accepted so that scripts go on.
// Help does not list either; docs/tracker.md does.

// alias gives a flag another name.
func alias(cmd *cobra.Command, name string, others ...string) {
	flag := cmd.Flags().Lookup(name)
	for _, other := range others {
		twin := *flag
		twin.Name, twin.Shorthand, twin.Hidden = other, "", true
		twin.Value = &shared{flag}
		cmd.Flags().AddFlag(&twin)
	}
}

// shared is the value of a flag under another name.
type shared struct{ of *pflag.Flag }

func (s *shared) String() string { return "" }
func (s *shared) Type() string   { return s.of.Value.Type() }
func (s *shared) Set(text string) error {
	s.of.Changed = true
	return s.of.Value.Set(text)
}

// idle are flags that mean nothing here.
func idle(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		cmd.Flags().Bool(name, false, "accepted; it means nothing here")
		_ = cmd.Flags().MarkHidden(name) // the flag is there
	}
}

// idleCommand is a command that means nothing here.
func (m *Main) idleCommand(name, why string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: "Accepted; " + why, Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			for _, word := range args {
				m.json = m.json || word == "--json"
			}
			if m.json {
				return m.printJSON(map[string]string{"status": "not_needed", "message": why})
			}
			m.say("Nothing to do: %s", why)
			return nil
		},
	}
}

// foreignCommands are those that mean nothing here.
func (m *Main) foreignCommands() []*cobra.Command {
	return []*cobra.Command{
		m.idleCommand("daemon", "there is no daemon; each command reads and writes the file itself"),
		m.idleCommand("daemons", "there is no daemon; each command reads and writes the file itself"),
		m.idleCommand("hooks", "no git hooks are needed; the file in the work tree is the only copy"),
		m.idleCommand("migrate", "there is no database to migrate; files of older versions are read as they are"),
	}
}
