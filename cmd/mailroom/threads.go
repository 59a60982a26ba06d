package main

import (
	"github.com/spf13/cobra"

	"mailroom/client"
)

func (m *Main) threadsCommand() *cobra.Command {
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
	output := formatFlag(cmd)
	listFlags(cmd, &q, "")
	cmd.AddCommand(m.threadsShowCommand())
	return m.withClient(cmd, func(c *client.Client, _ []string) error {
		page, err := c.Threads(cmd.Context(), q)
		if err != nil {
			return err
		}
		return m.printThreads(page, *output)
	})
}

// listFlags adds the flags of a list command. usual is the default of --filter.
func listFlags(cmd *cobra.Command, q *client.ListQuery, usual string) {
	cmd.Flags().StringVar(&q.Q, "filter", usual, "only items that match, such as 'agent:echo -thread:\"old*\"'")
	cmd.Flags().IntVar(&q.Limit, "limit", 50, "maximum number of items, at most 500")
	cmd.Flags().StringVar(&q.Cursor, "cursor", "", "continue after an earlier page")
}

func (m *Main) threadsShowCommand() *cobra.Command {
	q := client.MessagesQuery{}
	cmd := &cobra.Command{
		Use:   "show THREAD",
		Short: "Show a thread with its last messages",
		Example: `  mailroom threads show notes
  mailroom threads show notes --all -o json`,
		Args: cobra.ExactArgs(1),
	}
	output := formatFlag(cmd)
	cmd.Flags().IntVar(&q.Limit, "limit", 20, "maximum number of messages")
	cmd.Flags().BoolVar(&q.All, "all", false, "include superseded, retracted and unread messages")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := m.connect()
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
		return m.printThread(threadView{Thread: t, Messages: page.Items}, *output)
	}
	return cmd
}

func (m *Main) interruptCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "interrupt THREAD",
		Short:   "Stop a thread's running run and supersede its queued runs",
		Example: `  mailroom interrupt notes`,
		Args:    cobra.ExactArgs(1),
	}
	output := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := m.connect()
		if err != nil {
			return err
		}
		done, err := c.Interrupt(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return m.printInterrupted(done, *output)
	}
	return cmd
}
