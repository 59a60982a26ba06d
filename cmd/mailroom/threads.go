package main

import (
	"github.com/spf13/cobra"

	"mailroom/client"
	"mailroom/internal/console"
)

func threadsCommand(con *console.Console) *cobra.Command {
	q := client.ListQuery{}
	cmd := &cobra.Command{
		Use:   "threads",
		Short: "List threads, newest first",
		Long:  "List threads, newest first. Filter fields: id, agent, owner, status and updated.",
		Example: `  mailroom threads
  mailroom threads --filter 'status:waiting agent:tour'
  mailroom threads show notes`,
		Args: cobra.NoArgs,
	}
	output := console.FormatFlag(cmd)
	listFlags(cmd, &q, "")
	cmd.AddCommand(threadsShowCommand(con))
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		page, err := c.Threads(cmd.Context(), q)
		if err != nil {
			return err
		}
		return printThreads(con, page, *output)
	})
}

// listFlags adds the flags of a list command. usual is the default of --filter.
func listFlags(cmd *cobra.Command, q *client.ListQuery, usual string) {
	cmd.Flags().StringVar(&q.Q, "filter", usual, "only items that match, such as 'agent:echo -thread:\"old*\"'")
	cmd.Flags().IntVar(&q.Limit, "limit", 50, "maximum number of items, at most 500")
	cmd.Flags().StringVar(&q.Cursor, "cursor", "", "continue after an earlier page")
}

func threadsShowCommand(con *console.Console) *cobra.Command {
	q := client.MessagesQuery{}
	cmd := &cobra.Command{
		Use:   "show THREAD",
		Short: "Show a thread with its last messages",
		Example: `  mailroom threads show notes
  mailroom threads show notes --all -o json`,
		Args: cobra.ExactArgs(1),
	}
	output := console.FormatFlag(cmd)
	cmd.Flags().IntVar(&q.Limit, "limit", 20, "maximum number of messages")
	cmd.Flags().BoolVar(&q.All, "all", false, "include superseded, retracted and unread messages")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connect(con)
		if err != nil {
			return err
		}
		t, err := c.Thread(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		page, err := c.Messages(cmd.Context(), t.ID, q)
		if err != nil {
			return err
		}
		return printThread(con, threadView{Thread: t, Messages: page.Items}, *output)
	}
	return cmd
}

func interruptCommand(con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "interrupt THREAD",
		Short:   "Stop a thread's running run and supersede its queued runs",
		Example: `  mailroom interrupt notes`,
		Args:    cobra.ExactArgs(1),
	}
	output := console.FormatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connect(con)
		if err != nil {
			return err
		}
		done, err := c.Interrupt(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return printInterrupted(con, done, *output)
	}
	return cmd
}
