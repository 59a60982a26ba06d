package config

import (
	"strings"

	"github.com/spf13/cobra"

	"mailroom/alert"
	"mailroom/alert/target"
	"mailroom/app/command"
	"mailroom/app/datadir"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

// SetupOptions configure the commands that add to the configuration. All are required.
type SetupOptions struct {
	Console *command.Console
	Kinds   *target.Kinds
	// CheckAgent returns an error if the agent cannot run with a configuration.
	CheckAgent func(c *Config, agent string) error
}

// ChannelCommands returns one command for each kind of channel that a command can add.
func ChannelCommands(o SetupOptions) (all []*cobra.Command) {
	for _, k := range o.Kinds.Channels {
		if s := k.New(); s.Setup != nil {
			w := &wizard{options: o, thing: thing{
				table: "channels", what: "channel", kind: k.Name, keys: s.Keys, defaults: k.New().Keys, setup: s.Setup,
				exists: func(c *Config, name string) bool { return c.Channels[name] != nil },
				secret: datadir.Dir.ChannelSecret,
			}}
			all = append(all, w.channelCommand())
		}
	}
	return all
}

// TargetCommands returns one command for each kind of target that a command can add.
func TargetCommands(o SetupOptions) (all []*cobra.Command) {
	for _, k := range o.Kinds.Targets {
		if s := k.New(); s.Setup != nil {
			w := &wizard{options: o, thing: thing{
				table: "targets", what: "target", kind: k.Name, keys: s.Keys, defaults: k.New().Keys, setup: s.Setup,
				exists: func(c *Config, name string) bool { return c.Targets[name] != nil },
				secret: datadir.Dir.TargetSecret, check: s.Check, leaves: k.Leaves, own: k.Own,
			}}
			all = append(all, w.targetCommand())
		}
	}
	return all
}

// thing describes what a wizard adds: a channel or a target.
type thing struct {
	table    string // table of the configuration
	what     string // how messages name the object that is set up
	kind     string
	keys     []setting.Setting // settings of the table with their defaults; defaults is a copy
	defaults []setting.Setting
	setup    *kind.Setup
	exists   func(c *Config, name string) bool
	secret   func(d datadir.Dir, name, of string) string // path of a secret's file
	check    func() error                                // checks the settings of a target; nil accepts all

	// The fields below are for a target only.
	leaves string // says what leaves the machine, and to whom
	own    bool   // see the field Own of [target.Kind]
}

const (
	longText = `

The command asks for missing values, tests them, stores secrets in files of the data
folder that only the owner can read, and adds a table [channels.NAME] to mailroom.toml
there. Restart a running server to load the channel.

Access: `
	targetText = `

The command asks for missing values, tests them, stores secrets in files of
the data folder that only the owner can read, and adds the tables [targets.NAME] and
[rules.NAME] to mailroom.toml there. Restart a running server to load them.`
	pairingText = `a new user who writes to the bot gets a pairing code. Approve it with "mailroom
pair approve CODE".`
)

func (w *wizard) channelCommand() *cobra.Command {
	access := w.setup.Access
	if access == "" {
		access = pairingText
	}
	cmd := w.command("mailroom channels add", longText+access)
	w.asksAgent = true
	cmd.Flags().StringVar(&w.agent, "agent", "", "agent that handles the messages")
	return cmd
}

func (w *wizard) targetCommand() *cobra.Command {
	cmd := w.command("mailroom notify add", targetText)
	cmd.Flags().StringArrayVar(&w.when, "when",
		[]string{string(alert.KindTicket), string(alert.KindFailed), string(alert.KindChannel)},
		"alerts of the rule that is added: ticket, failed, channel, paused, outage, budget, schedule or digest; "+
			"may be repeated; empty adds no rule")
	cmd.Flags().StringVar(&w.remind, "remind-after", "",
		"remind of a question that is open for that long after its alert, such as 30m; each further reminder, of five "+
			"at most, waits twice as long")
	text := alert.TextTitle
	if w.own {
		text = alert.TextFull
	}
	cmd.Flags().StringVar(&w.text, "text", string(text),
		"how much of what agents and users wrote leaves the machine: none, title (the first line) or full. An alert "+
			"approves only what it shows")
	return cmd
}

func (w *wizard) command(line, text string) *cobra.Command {
	s := w.setup
	line = "  " + line + " " + w.kind
	cmd := &cobra.Command{
		Use:     w.kind,
		Short:   s.Short,
		Long:    s.Short + ".\n\n" + s.About + text,
		Example: line + "\n" + line + " " + s.Example,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return w.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&w.name, "name", w.kind, "name of the "+w.what)
	for _, q := range s.Questions {
		w.answers = append(w.answers, w.addFlag(cmd, q))
	}
	return cmd
}

// answer is a question of the wizard with its answer.
type answer struct {
	kind.Question
	value  setting.Value
	secret *setting.Secret // secret in the file that value names, or nil
	// given returns the value of the flag, or nil if it is not set.
	given func() any
}

// addFlag adds the flag of a question. It has the type of the value.
func (w *wizard) addFlag(cmd *cobra.Command, q kind.Question) answer {
	a := answer{Question: q, value: q.Value}
	for _, s := range w.keys {
		if s.Key == q.Key {
			a.value, a.secret = s.Value, s.Secret
		}
	}
	if a.Flag == "" {
		a.Flag = strings.ReplaceAll(q.Key, "_", "-")
	}
	flags := cmd.Flags()
	switch before := a.value.Get().(type) {
	case bool:
		change := flags.Bool(a.Flag, false, q.Usage)
		a.given = func() any {
			if !*change {
				return nil
			}
			return !before
		}
	case []string:
		list := flags.StringArray(a.Flag, nil, q.Usage)
		command.AllowEmpty(flags, a.Flag) // the command line may set an empty list
		a.given = func() any {
			if len(*list) == 0 {
				return nil
			}
			return *list
		}
	case string:
		text := flags.String(a.Flag, before, q.Usage)
		command.AllowEmpty(flags, a.Flag) // the command line may clear the setting
		a.given = func() any {
			if !flags.Changed(a.Flag) || *text == "" && (a.secret != nil || a.Resolve != nil) {
				return nil
			}
			return *text
		}
	}
	return a
}
