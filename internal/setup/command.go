// Package setup adds a channel to the configuration of a data folder. Every kind of channel is
// added in the same way: flags give the values or a person types them, the platform is probed, and
// then the secrets and the configuration are written.
package setup

import (
	"strings"

	"github.com/spf13/cobra"

	"mailroom/alert/target"
	"mailroom/channel/kind"
	"mailroom/internal/config"
	"mailroom/internal/console"
	"mailroom/internal/setting"
)

// Options configure the commands of this package. All are required.
type Options struct {
	Console *console.Console
	Kinds   *target.Kinds
	// CheckAgent returns an error if the agent cannot run with a configuration.
	CheckAgent func(c *config.Config, agent string) error
}

// Commands returns one command for each kind that a command can add.
func Commands(o Options) (all []*cobra.Command) {
	for _, k := range o.Kinds.Channels {
		if s := k.New(); s.Setup != nil {
			all = append(all, (&wizard{options: o, kind: k, settings: s}).command())
		}
	}
	return all
}

const (
	longText = `

The command asks for missing values, tests them, stores secrets in files of the data
folder that only the owner can read, and adds a table [channels.NAME] to mailroom.toml
there. Restart a running server to load the channel.

Access: `
	pairingText = `a new user who writes to the bot gets a pairing code. Approve it with "mailroom
pair approve CODE".`
)

func (w *wizard) command() *cobra.Command {
	s := w.settings.Setup
	access, line := s.Access, "  mailroom channels add "+w.kind.Name
	if access == "" {
		access = pairingText
	}
	cmd := &cobra.Command{
		Use:     w.kind.Name,
		Short:   s.Short,
		Long:    s.Short + ".\n\n" + s.About + longText + access,
		Example: line + "\n" + line + " " + s.Example,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return w.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&w.name, "name", w.kind.Name, "name of the channel")
	cmd.Flags().StringVar(&w.agent, "agent", "", "agent that handles the messages")
	for _, q := range s.Questions {
		w.answers = append(w.answers, w.addFlag(cmd, q))
	}
	return cmd
}

// answer is the answer to a question.
type answer struct {
	kind.Question
	value  setting.Value
	secret *setting.Secret // in the file that value names, or nil
	// given returns the value of the flag, or nil if it is not set.
	given func() any
}

// addFlag adds the flag of a question. Its type is that of the value.
func (w *wizard) addFlag(cmd *cobra.Command, q kind.Question) answer {
	a := answer{Question: q, value: q.Value}
	for _, s := range w.settings.Keys {
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
		a.given = func() any {
			if len(*list) == 0 {
				return nil
			}
			return *list
		}
	case string:
		text := flags.String(a.Flag, before, q.Usage)
		a.given = func() any {
			if *text == "" || *text == before {
				return nil
			}
			return *text
		}
	}
	return a
}
