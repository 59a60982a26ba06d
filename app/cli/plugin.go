package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"mailroom/app/command"
	"mailroom/clients/plugin"
	"mailroom/internal/version"
)

func pluginCommand(con *command.Console) *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "plugin FOLDER",
		Short: "Write the plugin for claude and codex",
		Long: `Write the plugin for coding agents into a folder, which is created: a skill that
explains this program, and the agent's inbox as MCP tools. The folder is a marketplace,
which claude and codex add by its path. After an update of this program, write it
again into the same folder.

The command replaces only what it has written. It changes nothing if one of these files
was edited, or if another program has made a file of that name.

Exit codes: 0 written, or with --check up to date; 1 not; 2 invalid usage.`,
		Example: `  mailroom plugin ~/.local/share/mailroom-plugin
  mailroom plugin --check ~/.local/share/mailroom-plugin`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing; fail if the folder is not up to date")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		dir, err := filepath.Abs(args[0])
		if err != nil {
			return command.Errorf(command.ExitUsage, "", "%w", err)
		}
		all, err := plugin.Files(version.Read().Version)
		if err != nil {
			return command.Errorf(command.ExitFailed, "", "%w", err)
		}
		if check {
			return checkPlugin(con, dir, all)
		}
		return writePlugin(con, dir, all)
	}
	return cmd
}

func checkPlugin(con *command.Console, dir string, all map[string][]byte) error {
	hint := "write it with `" + con.CommandLine("plugin", dir) + "`"
	f, err := plugin.Open(dir)
	if err != nil {
		return command.Errorf(command.ExitFailed, hint, "%w", err)
	}
	defer f.Close() // nothing was written
	names, err := f.Differences(all)
	if err != nil {
		return command.Errorf(command.ExitFailed, "", "%w", err)
	}
	if len(names) > 0 {
		return command.Errorf(command.ExitFailed, hint, "not that of this version: %s", strings.Join(names, ", "))
	}
	return con.Printf("%s is up to date\n", dir)
}

func writePlugin(con *command.Console, dir string, all map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return command.Errorf(command.ExitFailed, "", "%w", err)
	}
	f, err := plugin.Open(dir)
	if err != nil {
		return command.Errorf(command.ExitFailed, "", "%w", err)
	}
	err = errors.Join(f.Write(all), f.Close())
	if _, changed := errors.AsType[*plugin.Changed](err); changed {
		return command.Errorf(command.ExitFailed, "remove these files, or choose another folder", "%w", err)
	}
	if err != nil {
		return command.Errorf(command.ExitFailed, "", "%w", err)
	}
	quoted := command.Quote(dir)
	return con.Printf(`%[1]s has the plugin of this version. To install it:
  claude plugin marketplace add %[2]s && claude plugin install mailroom@mailroom
  codex plugin marketplace add %[2]s && codex plugin add mailroom@mailroom
Start the agent with a token of its own in MAILROOM_TOKEN, and the server's address in MAILROOM_URL:
  %[3]s
`, dir, quoted, con.CommandLine("token", "create", "claude", "--scope", "read,submit,decide"))
}
