package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
)

// projectCommand has the subcommands for agents that coordinate in a project.
func projectCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "project",
		Short: "Reserve names and notify other agents of a project",
		Long: `Reserve names and notify other agents of a project. A project is a name that the agents
agree on. The thread project:NAME logs its events.`,
		Example: `  mailroom project reserve 'src/**' --ttl 30m --reason refactoring
  mailroom project reservations
  mailroom project release 'src/**'
  mailroom project notify src.free
  mailroom project inbox`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.UsageErrorf(cmd, "missing subcommand: reserve, reservations, release, notify or inbox")
		},
	}
	cmd.AddCommand(reserveCommand(con), reservationsCommand(con), releaseCommand(con), notifyCommand(con),
		inboxCommand(con))
	return cmd
}

// agentFlag adds --as, the agent's name in a project.
func agentFlag(con *command.Console, cmd *cobra.Command) *string {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return cmd.Flags().String("as", cmp.Or(con.Env("BEADS_AGENT_NAME"), host), "name of the agent")
}

func projectFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("project", "", "project (default: default)")
}

func reserveCommand(con *command.Console) *cobra.Command {
	in := api.Reserve{}
	cmd := &cobra.Command{
		Use:   "reserve NAME…",
		Short: "Reserve files, issues or other names for an agent",
		Long: `Reserve files, issues or other names for an agent: all of the given names, or none.
A reservation expires after its TTL; reserve again to renew it, or release it earlier.

Names are globs: ? matches one character except a slash, * any number of those, ** any
number of any characters. Two names conflict if one string can match both. On a conflict
the exit code is 1, and the holder and expiry time are shown.`,
		Example: `  mailroom project reserve 'src/**' --ttl 30m --reason refactoring
  mailroom project reserve docs/design.md --shared --as ann`,
		Args: cobra.MinimumNArgs(1),
	}
	output, agent, project := command.FormatFlag(cmd), agentFlag(con, cmd), projectFlag(cmd)
	cmd.Flags().StringVar(&in.TTL, "ttl", "", "duration, 1s to 168h (default 1h)")
	cmd.Flags().StringVar(&in.Reason, "reason", "", "reason, shown to other agents")
	cmd.Flags().BoolVar(&in.Shared, "shared", false, "allow other shared reservations of the same names")
	cmd.Flags().BoolVar(&in.Advisory, "advisory", false, "report conflicts only; neither block others nor be blocked")
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		in.Names, in.Holder, in.Project = args, *agent, *project
		out, err := c.Projects.Reserve(cmd.Context(), in)
		if err != nil {
			return err
		}
		for _, r := range out.Conflicts {
			con.Infof("%s is reserved by %s until %s", r.Name, r.Holder, con.When(&r.ExpiresAt))
		}
		if *output == command.FormatJSON {
			return con.PrintJSON(out)
		}
		return printReservations(con, out.Granted, *output)
	})
}

func reservationsCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reservations",
		Short: "List reservations",
		Example: `  mailroom project reservations
  mailroom project reservations --project shop -o json`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	project := cmd.Flags().String("project", "", "only this project (default: all visible projects)")
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		rows, err := c.Projects.Reservations(cmd.Context(), *project)
		if err != nil {
			return err
		}
		return printReservations(con, rows, *output)
	})
}

func releaseCommand(con *command.Console) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "release ID|NAME…",
		Short: "Release reservations by id or name",
		Example: `  mailroom project release 'src/**' --as ann
  mailroom project release 3f1c… --force`,
		Args: cobra.MinimumNArgs(1),
	}
	agent, project := agentFlag(con, cmd), projectFlag(cmd)
	cmd.Flags().BoolVar(&force, "force", false,
		"release other agents' reservations; needs ids and a token with scope admin")
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		if !force {
			ended, err := c.Projects.ReleaseNames(cmd.Context(),
				api.ReleaseNames{Project: *project, Holder: *agent, Names: args})
			if err != nil {
				return err
			}
			for _, r := range ended {
				con.Infof("released %s", r.Name)
			}
			args = withoutNames(args, ended)
		}
		for _, id := range args {
			if err := c.Projects.Release(cmd.Context(), id, force); err != nil {
				return err
			}
			con.Infof("released reservation %s", id)
		}
		return nil
	})
}

// withoutNames returns args without the names of the ended reservations.
func withoutNames(args []string, ended []api.Reservation) (rest []string) {
	names := map[string]bool{}
	for _, r := range ended {
		names[r.Name] = true
	}
	for _, a := range args {
		if !names[strings.TrimPrefix(a, "./")] {
			rest = append(rest, a)
		}
	}
	return rest
}

func printReservations(con *command.Console, rows []api.Reservation, f command.Format) error {
	if f == command.FormatJSON {
		return con.PrintJSON(api.Page[api.Reservation]{Items: rows})
	}
	table := [][]string{{"NAME", "HOLDER", "PROJECT", "KIND", "UNTIL", "FENCE", "REASON", "ID"}}
	for _, r := range rows {
		kind := "exclusive"
		switch {
		case r.Advisory:
			kind = "advisory"
		case r.Shared:
			kind = "shared"
		}
		table = append(table, []string{
			r.Name, r.Holder, r.Project, kind, con.When(&r.ExpiresAt), strconv.FormatInt(r.Fence, 10), orDash(&r.Reason), r.ID,
		})
	}
	return con.PrintList(table, nil, "no reservations")
}

func notifyCommand(con *command.Console) *cobra.Command {
	in := api.Notify{}
	var data string
	cmd := &cobra.Command{
		Use:   "notify EVENT",
		Short: "Notify the other agents of a project",
		Long: `Notify the other agents of a project, or those that --to names. A project knows the
agents that reserved names, sent notifications or read their inbox in it.`,
		Example: `  mailroom project notify build.failed --data '{"commit":"3f1c"}'
  mailroom project notify review --to bob,carol --as ann`,
		Args: cobra.ExactArgs(1),
	}
	output, agent, project := command.FormatFlag(cmd), agentFlag(con, cmd), projectFlag(cmd)
	cmd.Flags().StringSliceVar(&in.To, "to", nil, "only these agents")
	cmd.Flags().StringVar(&data, "data", "", "JSON payload")
	cmd.Flags().StringVar(&in.Key, "key", "", "idempotency key: the same notification with the same key is sent once")
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		in.Event, in.From, in.Project = args[0], *agent, *project
		if data != "" {
			if in.Data = json.RawMessage(data); !json.Valid(in.Data) {
				return command.Errorf(command.ExitUsage, `use JSON such as --data '{"commit":"3f1c"}'`, "invalid --data")
			}
		}
		out, err := c.Projects.Notify(cmd.Context(), in)
		switch {
		case err != nil:
			return err
		case *output == command.FormatJSON:
			return con.PrintJSON(out)
		case len(out.To) == 0:
			con.Infof("no other agents in project %s yet", out.Project)
		default:
			con.Infof("notified %s", strings.Join(out.To, ", "))
		}
		return nil
	})
}

func inboxCommand(con *command.Console) *cobra.Command {
	var keep bool
	var limit int
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "Read notifications from other agents",
		Long: `Read notifications from other agents of a project, oldest first, and mark them as read;
--keep leaves them unread. An agent's inbox starts when the agent first reads it,
reserves a name or sends a notification.`,
		Example: `  mailroom project inbox --as ann
  mailroom project inbox --keep -o json`,
		Args: cobra.NoArgs,
	}
	output, agent, project := command.FormatFlag(cmd), agentFlag(con, cmd), projectFlag(cmd)
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the notifications unread")
	cmd.Flags().IntVar(&limit, "limit", 50, "maximum number of notifications, at most 500")
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		read := func() ([]api.Notification, error) {
			return c.Projects.TakeNotifications(cmd.Context(), api.Take{Project: *project, Agent: *agent, Limit: limit})
		}
		if keep {
			read = func() ([]api.Notification, error) {
				return c.Projects.Notifications(cmd.Context(), *project, *agent, limit)
			}
		}
		found, err := read()
		if err != nil {
			return err
		}
		if *output == command.FormatJSON {
			return con.PrintJSON(api.Page[api.Notification]{Items: found})
		}
		rows := [][]string{{"SEQ", "AT", "FROM", "EVENT", "DATA"}}
		for _, n := range found {
			rows = append(rows,
				[]string{fmt.Sprint(n.Seq), con.When(&n.At), n.From, n.Event, command.Shorten(string(n.Data), 100)})
		}
		return con.PrintList(rows, nil, "no new notifications for "+*agent)
	})
}
