package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"mailroom/api"
	"mailroom/client"
)

// projectCommand is what agents that share something do beside their work.
func (m *Main) projectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "project",
		Short: "Reserve names, and notify the other agents that share a project",
		Long: `Reserve names, and notify the other agents that share a project. A project is a name
that they have agreed on; what happens in it is the log of the thread project:NAME.`,
		Example: `  mailroom project reserve 'src/**' --ttl 30m --reason refactoring
  mailroom project reservations
  mailroom project release 'src/**'
  mailroom project notify src.free
  mailroom project inbox`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return &usageError{command: cmd.CommandPath(), err: errors.New("what to do in a project? reserve, reservations, release, notify or inbox")}
		},
	}
	cmd.AddCommand(m.reserveCommand(), m.reservationsCommand(), m.releaseCommand(), m.notifyCommand(), m.inboxCommand())
	return cmd
}

// agentFlag is the name under which an agent takes part in a project.
func (m *Main) agentFlag(cmd *cobra.Command) *string {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return cmd.Flags().String("as", cmp.Or(m.Env("BEADS_AGENT_NAME"), host), "the name of the agent")
}

func projectFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("project", "", "the project (default default)")
}

func (m *Main) reserveCommand() *cobra.Command {
	in := api.Reserve{}
	cmd := &cobra.Command{
		Use:   "reserve NAME…",
		Short: "Reserve files, issues or anything with a name, so that other agents leave it alone",
		Long: `Reserve files, issues or anything with a name, so that other agents leave it alone:
all of the names, or none. It ends by itself, sooner with release; reserving
again renews it.

A name is a glob: ? is any character but a slash, * any number of those, ** any number
of any. Two names conflict if anything has both. A conflict is exit code 1, and says who
holds the name and until when.`,
		Example: `  mailroom project reserve 'src/**' --ttl 30m --reason refactoring
  mailroom project reserve docs/design.md --shared --as ann`,
		Args: cobra.MinimumNArgs(1),
	}
	output, agent, project := formatFlag(cmd), m.agentFlag(cmd), projectFlag(cmd)
	cmd.Flags().StringVar(&in.TTL, "ttl", "", "how long it lasts, 1s to 168h (default 1h)")
	cmd.Flags().StringVar(&in.Reason, "reason", "", "what for")
	cmd.Flags().BoolVar(&in.Shared, "shared", false, "goes with others that are shared")
	cmd.Flags().BoolVar(&in.Advisory, "advisory", false, "refuse nobody, and be refused by nobody: only tell")
	return m.withClient(cmd, func(c *client.Client, args []string) error {
		in.Names, in.Holder, in.Project = args, *agent, *project
		out, err := c.Reserve(cmd.Context(), in)
		if err != nil {
			return err
		}
		for _, r := range out.Conflicts {
			m.infof("%s is reserved by %s until %s", r.Name, r.Holder, m.when(&r.ExpiresAt))
		}
		if *output == asJSON {
			return m.printJSON(out)
		}
		return m.printReservations(out.Granted, *output)
	})
}

func (m *Main) reservationsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reservations",
		Short: "List what is reserved, and by whom",
		Example: `  mailroom project reservations
  mailroom project reservations --project shop -o json`,
		Args: cobra.NoArgs,
	}
	output := formatFlag(cmd)
	project := cmd.Flags().String("project", "", "of this project (default of all that are visible)")
	return m.withClient(cmd, func(c *client.Client, _ []string) error {
		rows, err := c.Reservations(cmd.Context(), *project)
		if err != nil {
			return err
		}
		return m.printReservations(rows, *output)
	})
}

func (m *Main) releaseCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "release ID|NAME…",
		Short: "End reservations, by their ids or by the names that an agent reserved",
		Example: `  mailroom project release 'src/**' --as ann
  mailroom project release 3f1c… --force`,
		Args: cobra.MinimumNArgs(1),
	}
	agent, project := m.agentFlag(cmd), projectFlag(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "also those of others; needs a token with the scope admin, and ids")
	return m.withClient(cmd, func(c *client.Client, args []string) error {
		if !force {
			ended, err := c.ReleaseNames(cmd.Context(), api.ReleaseNames{Project: *project, Holder: *agent, Names: args})
			if err != nil {
				return err
			}
			for _, r := range ended {
				m.infof("%s is free", r.Name)
			}
			args = withoutNames(args, ended)
		}
		for _, id := range args {
			if err := c.Release(cmd.Context(), id, force); err != nil {
				return err
			}
			m.infof("reservation %s has ended", id)
		}
		return nil
	})
}

// withoutNames are the arguments that were no names of what has ended.
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

func (m *Main) printReservations(rows []api.Reservation, f format) error {
	if f == asJSON {
		return m.printJSON(api.Page[api.Reservation]{Items: rows})
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
			r.Name, r.Holder, r.Project, kind, m.when(&r.ExpiresAt), strconv.FormatInt(r.Fence, 10), orDash(&r.Reason), r.ID,
		})
	}
	return m.printList(table, nil, "nothing is reserved")
}

func (m *Main) notifyCommand() *cobra.Command {
	in := api.Notify{}
	var data string
	cmd := &cobra.Command{
		Use:   "notify EVENT",
		Short: "Tell the other agents of a project something",
		Long: `Tell the other agents of a project something: those that the project knows, which is
who has reserved, notified or looked into an inbox there, or those that --to names.`,
		Example: `  mailroom project notify build.failed --data '{"commit":"3f1c"}'
  mailroom project notify review --to bob,carol --as ann`,
		Args: cobra.ExactArgs(1),
	}
	output, agent, project := formatFlag(cmd), m.agentFlag(cmd), projectFlag(cmd)
	cmd.Flags().StringSliceVar(&in.To, "to", nil, "only these agents")
	cmd.Flags().StringVar(&data, "data", "", "JSON that goes with it")
	cmd.Flags().StringVar(&in.Key, "key", "", "the same under the same key is told once")
	return m.withClient(cmd, func(c *client.Client, args []string) error {
		in.Event, in.From, in.Project = args[0], *agent, *project
		if data != "" {
			if in.Data = json.RawMessage(data); !json.Valid(in.Data) {
				return exitErrorf(exitUsage, `such as --data '{"commit":"3f1c"}'`, "--data is not JSON")
			}
		}
		out, err := c.Notify(cmd.Context(), in)
		switch {
		case err != nil:
			return err
		case *output == asJSON:
			return m.printJSON(out)
		case len(out.To) == 0:
			m.infof("nobody else is known in project %s yet", out.Project)
		default:
			m.infof("told %s", strings.Join(out.To, ", "))
		}
		return nil
	})
}

func (m *Main) inboxCommand() *cobra.Command {
	var keep bool
	var limit int
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "Read what other agents of a project have told, once",
		Long: `Read what other agents of a project have told, the oldest first. What was read does
not come again, unless --keep leaves it unread. An agent's inbox begins when it first
looks into it, reserves or notifies.`,
		Example: `  mailroom project inbox --as ann
  mailroom project inbox --keep -o json`,
		Args: cobra.NoArgs,
	}
	output, agent, project := formatFlag(cmd), m.agentFlag(cmd), projectFlag(cmd)
	cmd.Flags().BoolVar(&keep, "keep", false, "leave it unread")
	cmd.Flags().IntVar(&limit, "limit", 50, "how many at most, up to 500")
	return m.withClient(cmd, func(c *client.Client, _ []string) error {
		read := func() ([]api.Notification, error) {
			return c.TakeNotifications(cmd.Context(), api.Take{Project: *project, Agent: *agent, Limit: limit})
		}
		if keep {
			read = func() ([]api.Notification, error) { return c.Notifications(cmd.Context(), *project, *agent, limit) }
		}
		found, err := read()
		if err != nil {
			return err
		}
		if *output == asJSON {
			return m.printJSON(api.Page[api.Notification]{Items: found})
		}
		rows := [][]string{{"SEQ", "AT", "FROM", "EVENT", "DATA"}}
		for _, n := range found {
			rows = append(rows, []string{fmt.Sprint(n.Seq), m.when(&n.At), n.From, n.Event, cut(string(n.Data), 100)})
		}
		return m.printList(rows, nil, "nothing new for "+*agent)
	})
}
