package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
)

func (m *Main) tokenQuotaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quota NAME",
		Short: "Set what a token may have",
		Long: `Set what a token may have: threads, bytes of their logs, notifications that it sent
and that inboxes have not read, workers that are alive, and streams that are open. What is not named is as [limits] in the configuration says. 0 is any
number. What is there stays when a quota is lowered below it.`,
		Example: `  mailroom token quota laptop --quota threads=500 --quota bytes=1073741824
  mailroom token quota laptop`,
		Args: cobra.ExactArgs(1),
	}
	output := formatFlag(cmd)
	quotas := quotaFlag(cmd)
	return m.withClient(cmd, func(c *client.Client, args []string) error {
		q, err := quotas()
		if err != nil {
			return err
		}
		t, err := c.SetQuotas(cmd.Context(), args[0], q)
		if err != nil {
			return err
		}
		return m.printTokens([]api.Token{t}, *output)
	})
}

// quotaFlag adds --quota, and returns what it says.
func quotaFlag(cmd *cobra.Command) func() (mailroom.Quotas, error) {
	given := cmd.Flags().StringToString("quota", nil, "what it may have: threads=N, bytes=N, notifications=N, workers=N, streams=N; 0 is any number")
	return func() (mailroom.Quotas, error) {
		q := mailroom.Quotas{}
		for name, text := range *given {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, exitErrorf(exitUsage, "give whole numbers, such as --quota threads=500", "the quota %s cannot be %q", name, text)
			}
			q[mailroom.Quota(name)] = n
		}
		return q, nil
	}
}

// quotaUsage is what a token has of what it may have.
func quotaUsage(t api.Token, q mailroom.Quota) string {
	used := t.Used.Of(q)
	if limit := t.Quotas[q]; limit > 0 {
		return fmt.Sprintf("%d/%d", used, limit)
	}
	return strconv.FormatInt(used, 10)
}
