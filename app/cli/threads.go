package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
)

func threadsCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "threads",
		SuggestFor: []string{"ls", "list"},
		Short:      "List threads, newest first",
		Long:       "List threads, newest first. Filter fields: id, agent, owner, status and updated.",
		Example: `  mailroom threads
  mailroom threads --filter 'status:waiting agent:tour'
  mailroom threads -o wide
  mailroom threads show notes`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(threadsShowCommand(con), threadsDeleteCommand(con), threadsDropSessionCommand(con))
	return list[api.Thread]{
		fetch:  (*client.Client).Threads,
		header: []string{"THREAD", "AGENT", "STATUS", "QUEUED", "ENTRIES", "UPDATED"},
		row: func(t api.Thread) []string {
			return []string{t.ID, t.Agent, t.Status, fmt.Sprint(t.Queued), fmt.Sprint(t.LastSeq), con.When(&t.UpdatedAt)}
		},
		wide: &table[api.Thread]{
			header: []string{
				"MESSAGE", "AGENT", "STATUS", "QUEUED", "ENTRIES", "OWNER", "CREATED", "UPDATED", "THREAD", "LATEST RUN",
			},
			row: func(t api.Thread) []string {
				return []string{
					command.Shorten(cmp.Or(t.Title, "-"), 60), t.Agent, t.Status, fmt.Sprint(t.Queued), fmt.Sprint(t.LastSeq), t.Owner,
					con.When(&t.CreatedAt), con.When(&t.UpdatedAt), t.ID, orDash(t.LatestRun),
				}
			},
		},
		what: "threads", none: "no threads yet; create one with `mailroom send hello`",
	}.command(con, cmd, "")
}

func threadsShowCommand(con *command.Console) *cobra.Command {
	q := client.MessagesQuery{}
	cmd := &cobra.Command{
		Use:   "show THREAD",
		Short: "Show a thread with its last messages",
		Example: `  mailroom threads show notes
  mailroom threads show notes --all -o json`,
		Args: cobra.ExactArgs(1),
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().IntVar(&q.Limit, "limit", 20, "maximum number of messages")
	cmd.Flags().BoolVar(&q.All, "all", false, "include superseded, retracted and unread messages")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connect(con)
		if err != nil {
			return err
		}
		id, err := resolveThread(cmd.Context(), c, args[0])
		if err != nil {
			return err
		}
		t, err := c.Thread(cmd.Context(), id)
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

func threadsDeleteCommand(con *command.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "delete THREAD",
		Short: "Delete an idle thread with all its messages and runs",
		Long: "Delete an idle thread with all its messages and runs. There is no undo. `mailroom interrupt THREAD` " +
			"makes a thread idle.",
		Example: `  mailroom threads delete notes`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := connect(con)
			if err != nil {
				return err
			}
			id, err := resolveThread(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if err := c.DeleteThread(cmd.Context(), id); err != nil {
				return err
			}
			return con.Printf("deleted thread %s\n", id)
		},
	}
}

func threadsDropSessionCommand(con *command.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "drop-session THREAD",
		Short: "Drop the session of a thread's agent",
		Long: `Drop the session of a thread's agent, such as a codex or claude session that answers no more. The next run begins a
new one, with the last messages of the thread. The thread keeps its messages. It is refused while a run is at work.`,
		Example: `  mailroom threads drop-session notes`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := connect(con)
			if err != nil {
				return err
			}
			id, err := resolveThread(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			t, err := c.PatchThread(cmd.Context(), id, api.ThreadPatch{DropSession: true})
			if err != nil {
				return err
			}
			return con.Printf("dropped the session of thread %s\n", t.ID)
		},
	}
}

func interruptCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "interrupt THREAD",
		SuggestFor: []string{"cancel", "abort"},
		Short:      "Stop a thread's running run and supersede its queued runs",
		Example:    `  mailroom interrupt notes`,
		Args:       cobra.ExactArgs(1),
	}
	output := command.FormatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connect(con)
		if err != nil {
			return err
		}
		id, err := resolveThread(cmd.Context(), c, args[0])
		if err != nil {
			return err
		}
		done, err := c.Interrupt(cmd.Context(), id)
		if err != nil {
			return err
		}
		return printInterrupted(con, done, *output)
	}
	return cmd
}

// threadView is the JSON output of threads show: the thread's fields, and the last
// messages of its transcript in reading order.
type threadView struct {
	api.Thread
	Messages []mailroom.Message `json:"messages"`
}

func printThread(con *command.Console, t threadView, output command.Format) error {
	if output == command.FormatJSON {
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
		err := con.Printf("\n%s (%d, %s%s)\n%s\n", msg.Role, msg.Seq, con.When(&msg.CreatedAt), note,
			con.Escape(content(msg)))
		if err != nil {
			return err
		}
	}
	return nil
}

func printInterrupted(con *command.Console, i api.Interrupted, output command.Format) error {
	if output == command.FormatJSON {
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
