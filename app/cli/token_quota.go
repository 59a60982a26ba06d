package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"mailroom/api"
	"mailroom/app/command"
	"mailroom/auth"
	"mailroom/client"
)

func tokenQuotaCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quota NAME",
		Short: "Set the quotas of a token",
		Long: `Set the quotas of a token: threads, bytes of their logs, notifications it sent that are
still unread, live workers, and open streams. Quotas that are not set come from [limits]
in the configuration. 0 means unlimited. Lowering a quota below the current use removes
nothing.`,
		Example: `  mailroom token quota laptop --quota threads=500 --quota bytes=1073741824
  mailroom token quota laptop`,
		Args: cobra.ExactArgs(1),
	}
	output := command.FormatFlag(cmd)
	quotas := quotaFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		q, err := quotas()
		if err != nil {
			return err
		}
		t, err := c.Accounts().SetQuotas(cmd.Context(), args[0], q)
		if err != nil {
			return err
		}
		return printTokens(con, []api.Token{t}, *output)
	})
}

// quotaFlag adds --quota and returns a function that parses it.
func quotaFlag(cmd *cobra.Command) func() (auth.Quotas, error) {
	given := cmd.Flags().StringToString("quota", nil,
		"quotas: threads=N, bytes=N, notifications=N, workers=N, streams=N; 0 means unlimited")
	return func() (auth.Quotas, error) {
		q := auth.Quotas{}
		for name, text := range *given {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, command.Errorf(command.ExitUsage, "use whole numbers, such as --quota threads=500",
					"invalid quota %s=%q", name, text)
			}
			q[auth.Quota(name)] = n
		}
		return q, nil
	}
}

// quotaUsage formats the use of a quota, with the limit if there is one.
func quotaUsage(t api.Token, q auth.Quota) string {
	used := t.Used.Of(q)
	if limit := t.Quotas[q]; limit > 0 {
		return fmt.Sprintf("%d/%d", used, limit)
	}
	return strconv.FormatInt(used, 10)
}
