package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom/api"
	"mailroom/app/command"
	"mailroom/auth"
	"mailroom/client"
)

func tokenLimitedCommand(con *command.Console) *cobra.Command {
	in := api.NewLimitedToken{}
	var scopes []string
	var life time.Duration
	cmd := &cobra.Command{
		Use:   "limited",
		Short: "Create a token with a part of your own rights",
		Long: `Create a token that acts for yours with a part of its rights, until it expires, and
print its secret once. A web application can hand such a token to a browser: one for a
run shows that run only, one for threads reaches no other thread. It ends at the latest
when your token is revoked.`,
		Example: `  mailroom token limited --scope read --run 019f2c6e-5a30-7cc1-b2d4-0a8d8a4c1f6b
  mailroom token limited --scope read,submit --thread support-17 --expires 24h`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().StringSliceVar(&scopes, "scope", []string{"read"}, "permissions: read, submit, decide, metrics, admin")
	cmd.Flags().StringSliceVar(&in.Threads, "thread", nil, "only this thread, which may not exist yet; may be repeated")
	cmd.Flags().StringVar(&in.Run, "run", "", "only this run")
	cmd.Flags().DurationVar(&life, "expires", time.Hour, "how long it is valid, at most 8784h")
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		in.Scopes, in.ExpiresAt = permissions(scopes), time.Now().Add(life).UTC()
		run, err := resolveRun(cmd.Context(), c, in.Run)
		if err != nil {
			return err
		}
		in.Run = run
		t, err := c.Accounts().CreateLimitedToken(cmd.Context(), in)
		if err != nil {
			return err
		}
		return printCreatedToken(con, t, *output)
	})
}

// permissions converts the values of --scope.
func permissions(scopes []string) []auth.Permission {
	list := []auth.Permission{}
	for _, s := range scopes {
		list = append(list, auth.Permission(strings.TrimSpace(s)))
	}
	return list
}
