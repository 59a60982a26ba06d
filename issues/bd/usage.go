package bd

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/internal/display"
)

// usageError is an invalid command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(format string, args ...any) error {
	return usageError{mailroom.Errorf(mailroom.CodeInvalid, format, args...)}
}

// either returns the one value that an argument or a flag gives. It refuses two different values, because either may
// be the one that the user meant.
func either(args []string, given, flag string) (string, error) {
	if len(args) == 0 {
		return given, nil
	}
	if given != "" && given != args[0] {
		return "", usage("%q and %s %q are two values for one thing: give one of them", args[0], flag, given)
	}
	return args[0], nil
}

// requireSubcommands makes every group of commands refuse an unknown subcommand and a call without
// one.
func requireSubcommands(m *Main, cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		requireSubcommands(m, sub)
	}
	if !cmd.HasSubCommands() || cmd.Runnable() {
		return
	}
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		if cmd.HasParent() || m.out.json {
			return needsCommand(cmd)
		}
		return cmd.Help()
	}
}

func needsCommand(group *cobra.Command) error {
	return usage("%s needs a command: %s; see: %s --help", group.CommandPath(), strings.Join(commandNames(group), ", "),
		group.CommandPath())
}

func unknownCommand(group *cobra.Command, word string) error {
	names := commandNames(group)
	if words := instead(word); words != "" && !group.HasParent() {
		return usage("unknown command %q for %q; %s", word, group.CommandPath(), words)
	}
	if near := display.Suggest(word, names); near != "" {
		return usage("unknown command %q for %q; did you mean %q?", word, group.CommandPath(), near)
	}
	return usage("unknown command %q for %q; see: %s --help", word, group.CommandPath(), group.CommandPath())
}

func commandNames(group *cobra.Command) (names []string) {
	for _, sub := range group.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	slices.Sort(names)
	return names
}

// flagError adds to the error about an unknown flag which flag to use instead. It covers flags that people and agents
// often guess.
func flagError(_ *cobra.Command, err error) error {
	for _, guess := range []string{"--block", "--depend", "--dep "} {
		if strings.Contains(err.Error()+" ", "unknown flag: "+guess) {
			return usage("%w; to let A wait for B: bd dep add A B", err)
		}
	}
	return err
}

// helpCommand returns the command that prints help.
func helpCommand(m *Main, root *cobra.Command) *cobra.Command {
	return &cobra.Command{Use: "help [COMMAND]", Short: "Show the help of a command",
		RunE: func(_ *cobra.Command, words []string) error {
			cmd := root
			for _, word := range words {
				at := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == word || c.HasAlias(word) })
				if at < 0 {
					return unknownCommand(cmd, word)
				}
				cmd = cmd.Commands()[at]
			}
			return cmd.Help()
		}}
}
