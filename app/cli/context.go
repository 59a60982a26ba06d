package cli

import (
	"bufio"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/app/command"
	"mailroom/app/endpoint"
	"mailroom/client"
	"mailroom/internal/setting"
)

func contextCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "List, add and choose servers by name",
		Long: `List the servers that have a name, for users of several servers. The commands that talk
to a server use, in this order: --data or --context, MAILROOM_CONTEXT, MAILROOM_URL or
MAILROOM_DATA, the context that "mailroom context use" chose, the server of the data
folder of this machine, whose name is local.

The file mailroom/contexts.toml in $XDG_CONFIG_HOME or ~/.config has the names with
their tokens. Only its owner may read it.`,
		Example: `  mailroom context add work --url https://mail.example.org
  mailroom context use work
  mailroom runs --context local`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		all, err := readContexts(con)
		if err != nil {
			return err
		}
		return printContexts(con, all, *output)
	}
	cmd.AddCommand(contextAddCommand(con), contextUseCommand(con), contextRemoveCommand(con))
	return cmd
}

// contextItem is a context in the JSON output, without its token.
type contextItem struct {
	Name    string `json:"name"`
	URL     string `json:"url"` // "" for the context local
	Current bool   `json:"current"`
}

func printContexts(con *command.Console, all endpoint.Contexts, output command.Format) error {
	items := []contextItem{{Name: endpoint.Local, Current: all.Current == ""}}
	for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
		items = append(items, contextItem{name, all.Contexts[name].URL, name == all.Current})
	}
	if output == command.FormatJSON {
		return con.PrintJSON(map[string]any{"items": items})
	}
	rows := [][]string{{"CURRENT", "NAME", "SERVER"}}
	for _, i := range items {
		mark, server := "", i.URL
		if i.Current {
			mark = "*"
		}
		if server == "" {
			server = "the data folder of this machine"
		}
		rows = append(rows, []string{mark, i.Name, server})
	}
	return con.PrintTable(rows)
}

func contextAddCommand(con *command.Console) *cobra.Command {
	var added endpoint.Context
	tokenFile := ""
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a server, or change its address or token",
		Long: `Add a server, or change its address or token. The token is read from --token-file or
asked for, never from an argument. A server that refuses the token is not added.`,
		Example: `  mailroom context add work --url https://mail.example.org
  mailroom context add work --url https://mail.example.org --token-file ./token`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&added.URL, "url", "", "address of the server")
	cmd.Flags().StringVar(&added.CA, "ca", "", "file with certificates to trust, beside those of the system")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "file with the token")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := args[0]
		if err := errors.Join(endpoint.CheckContextName(name), endpoint.CheckURL(added.URL)); err != nil {
			return command.UsageErrorf(cmd, "%w", err)
		}
		if added.CA != "" {
			abs, err := filepath.Abs(added.CA)
			if err != nil {
				return err
			}
			added.CA = abs
		}
		var err error
		if added.Token, err = askToken(con, tokenFile); err != nil {
			return err
		}
		server, err := added.Endpoint(con)
		if err != nil {
			return err
		}
		switch who, err := server.Client(client.WithMaxAttempts(1)).Accounts().Session(cmd.Context()); mailroom.CodeOf(err) {
		case "":
			con.Infof("%s accepts the token %s", added.URL, who.Token)
		case mailroom.CodeUnavailable:
			con.Infof("%s does not answer now, so the token is not checked", added.URL)
		default:
			return command.Errorf(command.ExitServer, "", "%s refuses the token: %w", added.URL, err)
		}
		return changeContexts(cmd.Context(), con, func(all *endpoint.Contexts) error {
			if all.Contexts == nil {
				all.Contexts = map[string]endpoint.Context{}
			}
			all.Contexts[name] = added
			con.Infof("use it with --context %s, or always after `%s`", name, con.CommandLine("context", "use", name))
			return nil
		})
	}
	return cmd
}

// askToken reads a token from a file, or from standard input.
func askToken(con *command.Console, file string) (string, error) {
	token := ""
	if file != "" {
		raw, err := setting.ReadFile(file)
		if err != nil {
			return "", command.Errorf(command.ExitUsage, "", "read the token: %w", err)
		}
		token = string(raw)
	} else {
		line, err := con.Prompt(bufio.NewReader(con.Stdin), "Token: ")
		if err != nil {
			return "", err
		}
		token = line
	}
	if token = strings.TrimSpace(token); token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", command.Errorf(command.ExitUsage, "", "this is not a token")
	}
	return token, nil
}

func contextUseCommand(con *command.Console) *cobra.Command {
	return contextChange(con, &cobra.Command{
		Use:   "use NAME",
		Short: "Choose the server of the next commands",
		Example: `  mailroom context use work
  mailroom context use local    # the server of the data folder`,
	}, func(all *endpoint.Contexts, name string) {
		if all.Current = name; name == endpoint.Local {
			all.Current = ""
		}
		for _, variable := range []string{"MAILROOM_CONTEXT", "MAILROOM_URL", "MAILROOM_DATA"} {
			if con.Env(variable) != "" {
				con.Infof("%s is set and goes before this choice", variable)
			}
		}
	})
}

func contextRemoveCommand(con *command.Console) *cobra.Command {
	return contextChange(con, &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove a server and its token from the file",
		Long:    `Remove a server and its token from the file. The token stays valid; see mailroom token revoke.`,
		Example: `  mailroom context remove work`,
	}, func(all *endpoint.Contexts, name string) {
		delete(all.Contexts, name)
		if all.Current == name {
			all.Current = ""
			con.Infof("the commands now use the data folder of this machine")
		}
	})
}

// contextChange returns a command that changes one existing context in the user's file of contexts.
func contextChange(
	con *command.Console, cmd *cobra.Command, change func(all *endpoint.Contexts, name string),
) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	cmd.ValidArgsFunction = completeContexts(con)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return changeContexts(cmd.Context(), con, func(all *endpoint.Contexts) error {
			_, ok := all.Contexts[args[0]]
			if !ok && (args[0] != endpoint.Local || cmd.Name() == "remove") {
				return command.Errorf(command.ExitUsage, "see `mailroom context`", "no context %q", args[0])
			}
			change(all, args[0])
			return nil
		})
	}
	return cmd
}

func changeContexts(ctx context.Context, con *command.Console, change func(*endpoint.Contexts) error) error {
	err := endpoint.ChangeContexts(ctx, con.Env, change)
	if _, ok := errors.AsType[*command.Error](err); err == nil || ok {
		return err
	}
	return command.Errorf(command.ExitUsage, "", "change the contexts: %w", err)
}

func readContexts(con *command.Console) (endpoint.Contexts, error) {
	all, err := endpoint.ReadContexts(con.Env)
	if err != nil {
		err = command.Errorf(command.ExitUsage, "", "%w", err)
	}
	return all, err
}

func completeContexts(con *command.Console) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
		all, err := endpoint.ReadContexts(con.Env)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found = []cobra.Completion{endpoint.Local}
		for name, c := range all.Contexts {
			found = append(found, described(name, c.URL))
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}
