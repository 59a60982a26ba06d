package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
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

func printThreads(con *console.Console, page api.Page[api.Thread], output console.Format) error {
	if output == console.FormatJSON {
		return con.PrintJSON(page)
	}
	rows := [][]string{{"THREAD", "AGENT", "STATUS", "QUEUED", "ENTRIES", "UPDATED"}}
	for _, t := range page.Items {
		rows = append(rows, []string{
			t.ID, t.Agent, t.Status, fmt.Sprint(t.Queued), fmt.Sprint(t.LastSeq), con.When(&t.UpdatedAt),
		})
	}
	return con.PrintList(rows, page.Next, `no threads yet; create one with: mailroom send "hello"`)
}

// threadView is the JSON output of threads show: the thread's fields, and the last
// messages of its transcript in reading order.
type threadView struct {
	api.Thread
	Messages []mailroom.Message `json:"messages"`
}

func printThread(con *console.Console, t threadView, output console.Format) error {
	if output == console.FormatJSON {
		return con.PrintJSON(t)
	}
	rows := [][]string{
		{"thread", t.ID}, {"agent", t.Agent}, {"status", t.Status}, {"queued", fmt.Sprint(t.Queued)},
		{"active run", orDash(t.ActiveRun)}, {"latest run", orDash(t.LatestRun)}, {"parent", orDash(t.Parent)},
		{"entries", fmt.Sprintf("%d to %d", t.OldestSeq, t.LastSeq)},
		{"created", con.When(&t.CreatedAt)}, {"updated", con.When(&t.UpdatedAt)},
	}
	if err := con.PrintTable(rows); err != nil {
		return err
	}
	for _, msg := range t.Messages {
		note := ""
		if msg.Partial {
			note = ", incomplete"
		} else if msg.State != mailroom.MessageDone {
			note = ", " + msg.State
		}
		err := con.Printf("\n%s (%d, %s%s)\n%s\n", msg.Role, msg.Seq, con.When(&msg.CreatedAt), note, con.Escape(content(msg)))
		if err != nil {
			return err
		}
	}
	return nil
}

func printInterrupted(con *console.Console, i api.Interrupted, output console.Format) error {
	if output == console.FormatJSON {
		return con.PrintJSON(i)
	}
	var rows [][]string
	for _, run := range i.Superseded {
		rows = append(rows, []string{run, "superseded"})
	}
	if i.Stopping != nil {
		rows = append(rows, []string{*i.Stopping, "stopping"})
	}
	if len(rows) == 0 {
		con.Infof("nothing was queued or running")
	}
	return con.PrintTable(rows)
}

// content returns the text of a message and its other parts, one line each.
func content(msg mailroom.Message) string {
	lines := []string{}
	if msg.Text != "" {
		lines = append(lines, msg.Text)
	}
	for _, p := range msg.Parts {
		switch p.Type {
		case "data":
			lines = append(lines, string(p.Data))
		case "file":
			lines = append(lines, p.URI)
		}
	}
	return strings.Join(lines, "\n")
}
