package cli

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom/api"
	"mailroom/app/command"
	"mailroom/auth"
	"mailroom/client"
)

func tokenCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke tokens, and set their quotas",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.UsageErrorf(cmd, "missing subcommand: create, limited, list, revoke or quota")
		},
	}
	cmd.AddCommand(tokenCreateCommand(con), tokenLimitedCommand(con), tokenListCommand(con), tokenRevokeCommand(con),
		tokenQuotaCommand(con))
	return cmd
}

func tokenCreateCommand(con *command.Console) *cobra.Command {
	in := api.NewToken{}
	var scopes []string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token and print its secret once",
		Long: `Create a token and print its secret once: the server stores only a hash of it. NAME is
the owner of the threads and the sender of the messages created with the token.

Scopes: read (show and follow), submit (send, edit, stop, retry), decide (decide
tickets), work (run agents from another process), metrics (read /metrics), admin
(everything, in all threads). A token has access to the threads of its own name, with
--namespace also to threads whose id starts with that prefix, with admin to all.`,
		Example: `  mailroom token create laptop --scope read,submit,decide
  mailroom token create team --scope read --namespace team-
  mailroom token create discourse --scope read,submit --via discourse
  MAILROOM_TOKEN=$(mailroom token create ci --scope read,submit) mailroom send "build it"`,
		Args: cobra.ExactArgs(1),
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "permissions: read, submit, decide, work, metrics, admin")
	cmd.Flags().StringVar(&in.Namespace, "namespace", "", "also give access to threads whose id starts with this")
	cmd.Flags().StringSliceVar(&in.Agents, "agent", nil,
		"with scope work: agents that it may run (default: all that the server does not run)")
	cmd.Flags().StringVar(&in.Via, "via", "",
		"label of the runs that it creates, such as the name of a gateway: shown as via, and found by the filter via:")
	quotas := quotaFlag(cmd)
	cmd.Flags().StringToStringVar(&in.Budget, "budget", nil,
		"what the runs in its threads may use: day=AMOUNT, month=AMOUNT, and each: run=AMOUNT, such as run=1usd")
	var life time.Duration
	cmd.Flags().DurationVar(&life, "expires", 0, "how long it is valid (default: until it is revoked)")
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		var err error
		if in.Quotas, err = quotas(); err != nil {
			return err
		}
		in.Name, in.Scopes = args[0], permissions(scopes)
		if life > 0 {
			expires := time.Now().Add(life).UTC()
			in.ExpiresAt = &expires
		}
		if len(in.Scopes) == 0 {
			return command.Errorf(command.ExitUsage,
				"add --scope, such as --scope read,submit,decide; scopes are read, submit, decide, work, metrics and admin",
				"missing scopes")
		}
		t, err := c.Accounts().CreateToken(cmd.Context(), in)
		if err != nil {
			return err
		}
		return printCreatedToken(con, t, *output)
	})
}

func tokenListCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens, by name",
		Long: `List the tokens, by name, with the sessions of browsers, the links to sign in and the
limited tokens, which act for the token in their name.`,
		Example: `  mailroom token list
  mailroom token list -o json`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		tokens, err := c.Accounts().Tokens(cmd.Context())
		if err != nil {
			return err
		}
		return printTokens(con, tokens, *output)
	})
}

// printCreatedToken prints only the secret on Stdout, so that a shell can capture it.
func printCreatedToken(con *command.Console, t api.CreatedToken, f command.Format) error {
	if f == command.FormatJSON {
		return con.PrintJSON(t)
	}
	con.Infof("created token %s with scopes %s; the secret is shown once:", t.Name, joinScopes(t.Scopes))
	return con.Printf("%s\n", t.Secret)
}

func printTokens(con *command.Console, tokens []api.Token, f command.Format) error {
	if f == command.FormatJSON {
		return con.PrintJSON(api.Page[api.Token]{Items: tokens})
	}
	rows := [][]string{{"NAME", "SCOPES", "NAMESPACE", "AGENTS", "VIA", "BUDGET", "THREADS", "STORED", "WORKERS",
		"STREAMS", "UNREAD", "CREATED", "USED", "ENDS"}}
	for _, t := range tokens {
		rows = append(rows, []string{
			t.Name, joinScopes(t.Scopes), orDash(t.Namespace), joinOrDash(t.Agents), orDash(t.Via), tokenBudget(t),
			quotaUsage(t, auth.QuotaThreads), quotaUsage(t, auth.QuotaBytes), quotaUsage(t, auth.QuotaWorkers),
			quotaUsage(t, auth.QuotaStreams), quotaUsage(t, auth.QuotaNotifications),
			con.When(&t.CreatedAt), con.When(t.UsedAt), tokenEnd(con, t),
		})
	}
	return con.PrintList(rows, nil, "no tokens except the operator's, which is in the data folder")
}

// tokenBudget says what the runs of a token may use, as its --budget does.
func tokenBudget(t api.Token) string {
	var list []string
	for _, period := range slices.Sorted(maps.Keys(t.Budget)) {
		list = append(list, period+"="+t.Budget[period])
	}
	return cmp.Or(strings.Join(list, "; "), "-")
}

// tokenEnd says when a token ends or has ended.
func tokenEnd(con *command.Console, t api.Token) string {
	switch {
	case t.RevokedAt != nil:
		return "revoked " + con.When(t.RevokedAt)
	case t.ExpiresAt != nil && !t.ExpiresAt.After(time.Now()):
		return "expired " + con.When(t.ExpiresAt)
	}
	return con.When(t.ExpiresAt)
}

func joinScopes(scopes []auth.Permission) string {
	var list []string
	for _, s := range scopes {
		list = append(list, string(s))
	}
	return strings.Join(list, ",")
}

func joinOrDash(list []string) string {
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, " ")
}
