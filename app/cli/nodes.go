package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
)

// node is one server of a cluster, as the rows of its workers describe it.
type node struct {
	ID         string    `json:"id"`
	Host       string    `json:"host"`
	PID        int       `json:"pid"`
	Version    string    `json:"version"`
	Running    int       `json:"running"`
	LeaseUntil time.Time `json:"lease_until"` // the earliest of its workers
	Duties     []string  `json:"duties"`
}

func nodesCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "List the servers that share the store",
		Long: `List the servers that share the store, with their versions and the runs that they have.
DUTIES are jobs that one server at a time does. A server that was killed is listed until
its lease ends. The id of a server is kept in its data folder.`,
		Example: `  mailroom nodes
  mailroom nodes -o json`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		workers, err := c.Workers(cmd.Context())
		if err != nil {
			return err
		}
		return printNodes(con, nodesOf(workers), *output)
	})
}

// nodesOf sums up the workers of each server, ordered by host, process and id.
func nodesOf(workers []api.Worker) []node {
	nodes := []node{}
	for _, w := range workers {
		if w.Node == "" {
			continue
		}
		i := slices.IndexFunc(nodes, func(n node) bool { return n.ID == w.Node && n.PID == w.PID })
		if i < 0 {
			i = len(nodes)
			nodes = append(nodes,
				node{ID: w.Node, Host: w.Host, PID: w.PID, Version: w.Version, LeaseUntil: w.LeaseUntil, Duties: []string{}})
		}
		n := &nodes[i]
		n.Running += w.Running
		n.Duties = append(n.Duties, w.Duties...)
		if w.LeaseUntil.Before(n.LeaseUntil) {
			n.LeaseUntil = w.LeaseUntil
		}
	}
	for _, n := range nodes {
		slices.Sort(n.Duties)
	}
	slices.SortFunc(nodes, func(a, b node) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.PID, b.PID), cmp.Compare(a.ID, b.ID))
	})
	return nodes
}

func printNodes(con *command.Console, nodes []node, output command.Format) error {
	if output == command.FormatJSON {
		return con.PrintJSON(api.Page[node]{Items: nodes})
	}
	rows := [][]string{{"NODE", "HOST", "PID", "VERSION", "RUNNING", "LEASE UNTIL", "DUTIES"}}
	for _, n := range nodes {
		rows = append(rows, []string{
			n.ID, n.Host, fmt.Sprint(n.PID), cmp.Or(n.Version, "-"), fmt.Sprint(n.Running), con.When(&n.LeaseUntil),
			cmp.Or(strings.Join(n.Duties, " "), "-"),
		})
	}
	return con.PrintList(rows, nil, "no servers")
}
