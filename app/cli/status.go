package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/app/datadir"
	"mailroom/app/endpoint"
	"mailroom/client"
)

// statusTimeout limits the requests of mailroom status.
const statusTimeout = 10 * time.Second

// serverStatus is the JSON output of mailroom status. PID and Data are null for a server named by MAILROOM_URL or a
// context.
type serverStatus struct {
	URL       string                  `json:"url"`
	Ready     bool                    `json:"ready"`
	Problem   *string                 `json:"problem"` // why it is not ready
	PID       *int                    `json:"pid"`
	Version   string                  `json:"version"`
	StartedAt time.Time               `json:"started_at"`
	Data      *string                 `json:"data"`
	Threads   int                     `json:"threads"`
	Runs      map[mailroom.Status]int `json:"runs"`
	Waits     []api.WaitGroup         `json:"waits"` // why the oldest queued runs do not run, the most runs first
	Agents    []api.Agent             `json:"agents"`
	Channels  []api.Channel           `json:"channels"`
}

func statusCommand(con *command.Console) *cobra.Command {
	pid := false
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the server",
		Long: `Show the server of the data folder, or the one that MAILROOM_URL or a context names: its
process, version, address, runs, agents and channels. If no server runs, the exit code is 4.`,
		Example: `  mailroom status
  mailroom status -o json
  kill -9 "$(mailroom status --pid)"`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().BoolVar(&pid, "pid", false, "print only the process id, even if the server does not respond")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if pid {
			return printPID(con)
		}
		s, err := fetchServerStatus(cmd.Context(), con)
		if err != nil {
			return err
		}
		return printStatus(con, s, *output)
	}
	return cmd
}

// localServer finds the process of the data folder's server.
func localServer(con *command.Console) (*datadir.Process, datadir.Dir, error) {
	switch remote, err := endpoint.IsRemote(con); {
	case err != nil:
		return nil, "", err
	case remote:
		return nil, "", command.Errorf(command.ExitUsage, "use --data on the server's machine",
			"cannot find the process of a server named by MAILROOM_URL or by a context")
	}
	dir, err := datadir.Find(con.Data, con.Env)
	if err != nil {
		return nil, "", command.Errorf(command.ExitUsage, "", "%w", err)
	}
	p, err := dir.Process()
	switch {
	case err != nil:
		return nil, dir, command.Errorf(command.ExitServer, "", "%w", err)
	case p == nil:
		return nil, dir, command.Errorf(command.ExitServer, "start one with `"+con.CommandLine("serve")+"`",
			"no server on %s", dir)
	}
	return p, dir, nil
}

func printPID(con *command.Console) error {
	p, _, err := localServer(con)
	if err != nil {
		return err
	}
	return errors.Join(con.Printf("%d\n", p.PID), p.Release())
}

// fetchServerStatus queries the server. If a data folder selects the server, it first checks that the server's
// process runs, because another program may listen on the address of a killed server.
func fetchServerStatus(ctx context.Context, con *command.Console) (s serverStatus, err error) {
	remote, err := endpoint.IsRemote(con)
	if err != nil {
		return s, err
	}
	if !remote {
		p, dir, err := localServer(con)
		if err != nil {
			return s, err
		}
		pid, data := p.PID, string(dir)
		s.PID, s.Data = &pid, &data
		if err := p.Release(); err != nil {
			return s, err
		}
		if _, err := dir.Address(); err != nil {
			return s, command.Errorf(command.ExitServer, "try again in a moment", "server with process id %d is starting or "+
				"stopping on %s", pid, dir)
		}
	}
	c, err := connect(con)
	if err != nil {
		return s, err
	}
	s.URL = con.Server
	ctx, cancel := context.WithTimeoutCause(ctx, statusTimeout, fmt.Errorf("waited %s", statusTimeout))
	defer cancel()
	return s, s.fetch(ctx, c)
}

// fetch queries the API and sets the remaining fields.
func (s *serverStatus) fetch(ctx context.Context, c *client.Client) error {
	health, err := c.Health(ctx)
	if err != nil {
		return err
	}
	s.Version, s.Ready = health.Version, true
	if _, err := c.Ready(ctx); err != nil {
		problem := err.Error()
		s.Ready, s.Problem = false, &problem
	}
	stats, err := c.Stats(ctx)
	if err != nil {
		return err
	}
	s.StartedAt, s.Threads, s.Runs = stats.StartedAt, stats.Threads, stats.Runs
	waits, err := c.Sums().Waits(ctx, "delivery:no")
	if err != nil && mailroom.CodeOf(err) != mailroom.CodeNotFound { // a server of an older version
		return err
	}
	s.Waits = waits.Items
	if s.Agents, err = c.Agents(ctx); err != nil {
		return err
	}
	s.Channels, err = c.Channels(ctx)
	return err
}

func printStatus(con *command.Console, s serverStatus, output command.Format) error {
	if output == command.FormatJSON {
		return con.PrintJSON(s)
	}
	state := "ready"
	if !s.Ready {
		state = "not ready: " + deref(s.Problem)
	}
	rows := [][]string{{"server", s.URL}, {"state", state}}
	if s.PID != nil {
		rows = append(rows, []string{"process", fmt.Sprint(*s.PID)}, []string{"data", deref(s.Data)})
	}
	rows = append(rows, []string{"version", s.Version}, []string{"started", con.When(&s.StartedAt)},
		[]string{"threads", fmt.Sprint(s.Threads)}, []string{"runs", runCounts(s.Runs)})
	for i, w := range s.Waits[:min(len(s.Waits), shownWaits)] {
		rows = append(rows, []string{map[bool]string{true: "queued"}[i == 0], waitGroup(w)})
	}
	return con.PrintTable(append(rows,
		[]string{"agents", agentNames(s.Agents)}, []string{"channels", channelStates(s.Channels)},
	))
}

// shownWaits is how many causes mailroom status shows.
const shownWaits = 5

// waitGroup formats why queued runs wait, such as "170 wait behind 30 others, for a decision: Deploy?".
func waitGroup(w api.WaitGroup) string {
	verb := map[bool]string{true: "waits", false: "wait"}[w.Runs == 1]
	if w.Runs == w.Behind {
		return fmt.Sprintf("%d %s for %s", w.Runs, verb, w.Text)
	}
	return fmt.Sprintf("%d %s, behind %d runs, for %s", w.Runs, verb, w.Behind, w.Text)
}

// runCounts formats the number of runs by status, without zeros.
func runCounts(runs map[mailroom.Status]int) string {
	var counts []string
	for _, status := range []mailroom.Status{mailroom.StatusRunning, mailroom.StatusQueued, mailroom.StatusWaiting,
		mailroom.StatusCompleted, mailroom.StatusFailed, mailroom.StatusCancelled} {
		if n := runs[status]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, status))
		}
	}
	return joinItems(counts)
}

func agentNames(agents []api.Agent) string {
	var names []string
	for _, a := range agents {
		name := a.Name
		if !a.Available {
			name += " (not available)"
		}
		names = append(names, name)
	}
	return joinItems(names)
}

func channelStates(channels []api.Channel) string {
	var states []string
	for _, c := range channels {
		states = append(states, c.Name+" "+c.State)
	}
	return joinItems(states)
}

// joinItems joins at most 12 items for a table cell.
func joinItems(items []string) string {
	const most = 12
	if len(items) == 0 {
		return "none"
	}
	if len(items) > most {
		items = append(items[:most:most], fmt.Sprintf("and %d more", len(items)-most))
	}
	return strings.Join(items, ", ")
}
