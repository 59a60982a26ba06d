package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
)

func searchCommand(con *command.Console) *cobra.Command {
	q := client.SearchQuery{}
	limit := 0
	cmd := &cobra.Command{
		Use:   "search WORD…",
		Short: "Find messages by their words",
		Long: `Find messages that have all of the words, the newest first. Words are found whole,
in upper or lower case and in any order. The index follows the log within seconds.`,
		Example: `  mailroom search northern line
  mailroom search --thread support-17 invoice
  mailroom attach support-17    # the conversation of a message`,
		Args: cobra.MinimumNArgs(1),
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().StringVar(&q.Thread, "thread", "", "only messages of this thread")
	cmd.Flags().IntVar(&limit, "limit", 20, "maximum number of messages")
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		q.Q = strings.Join(args, " ")
		thread, err := resolveThread(cmd.Context(), c, q.Thread)
		if err != nil {
			return err
		}
		q.Thread = thread
		if limit < 1 {
			return mailroom.Errorf(mailroom.CodeInvalid, "limit must be at least 1")
		}
		found := api.FoundMessages{Items: []api.FoundMessage{}}
		for { // a page may be empty and have a next
			q.Limit = min(limit-len(found.Items), 100)
			page, err := c.Search(cmd.Context(), q)
			if err != nil {
				return err
			}
			page.Items = append(found.Items, page.Items...)
			if found = page; found.Next == nil || len(found.Items) >= limit {
				break
			}
			q.Cursor = *found.Next
		}
		if *output == command.FormatJSON {
			return con.PrintJSON(found)
		}
		rows := [][]string{{"CREATED", "THREAD", "FROM", "MESSAGE"}}
		for _, m := range found.Items {
			from := m.Sender
			if m.Role == mailroom.RoleAssistant {
				from = "agent"
			}
			rows = append(rows, []string{con.When(&m.CreatedAt), m.Thread, from, command.Shorten(m.Excerpt, 160)})
		}
		if err := con.PrintList(rows, nil, "no message has all of these words"); err != nil {
			return err
		}
		switch {
		case !found.Complete && found.IndexedTo == nil:
			con.Infof("no message is indexed yet")
		case !found.Complete:
			con.Infof("messages after %s are not indexed yet", con.When(found.IndexedTo))
		}
		if found.Next != nil {
			con.Infof("there may be older ones: --limit %d", 2*limit)
		}
		return nil
	})
}
