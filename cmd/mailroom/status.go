package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
	"mailroom/cmd/mailroom/internal/datadir"
)

// statusTimeout is how long status waits for the answers of a server.
const statusTimeout = 10 * time.Second

// serverStatus is what -o json of status prints. PID and Data are null for a server that MAILROOM_URL names.
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
	Agents    []api.Agent             `json:"agents"`
	Channels  []api.Channel           `json:"channels"`
}

func (m *Main) statusCommand() *cobra.Command {
	pid := false
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show whether a server runs, and how it is",
		Long: `Show the server of the data folder, or the one that MAILROOM_URL names: its process,
version, address, runs, agents and channels. The exit code is 4 if none runs.`,
		Example: `  mailroom status
  mailroom status -o json
  kill -9 "$(mailroom status --pid)"`,
		Args: cobra.NoArgs,
	}
	output := formatFlag(cmd)
	cmd.Flags().BoolVar(&pid, "pid", false, "print the process id alone, also of a server that does not answer")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if pid {
			return m.printPID()
		}
		s, err := m.status(cmd.Context())
		if err != nil {
			return err
		}
		return m.printStatus(s, *output)
	}
	return cmd
}

// remote tells whether the environment names a server by its address.
func (m *Main) remote() bool { return m.data == "" && m.Env("MAILROOM_URL") != "" }

// localServer finds the process of the data folder's server.
func (m *Main) localServer() (*datadir.Process, datadir.Dir, error) {
	if m.remote() {
		return nil, "", exitErrorf(exitUsage, "name its data folder with --data, on its machine", "MAILROOM_URL names a server by its address, which does not give its process")
	}
	dir, err := datadir.Find(m.data, m.Env)
	if err != nil {
		return nil, "", exitErrorf(exitUsage, "", "%w", err)
	}
	p, err := dir.Process()
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil, dir, exitErrorf(exitFailed, "", "this system does not tell which process holds %s", dir)
	case err != nil:
		return nil, dir, exitErrorf(exitServer, "", "%w", err)
	case p == nil:
		return nil, dir, exitErrorf(exitServer, "start one with `"+m.commandLine("serve")+"`", "no server on %s", dir)
	}
	return p, dir, nil
}

func (m *Main) printPID() error {
	p, _, err := m.localServer()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(m.Stdout, p.PID)
	return errors.Join(wrapPrintError(err), p.Release())
}

// status asks the server how it is. A server of a folder is asked only while its process runs: the address of a killed one may be
// another program's by now.
func (m *Main) status(ctx context.Context) (s serverStatus, err error) {
	if !m.remote() {
		p, dir, err := m.localServer()
		if err != nil {
			return s, err
		}
		pid, data := p.PID, string(dir)
		s.PID, s.Data = &pid, &data
		if err := p.Release(); err != nil {
			return s, err
		}
		if _, err := dir.Address(); err != nil {
			return s, exitErrorf(exitServer, "try again in a moment", "a server with process id %d is starting or stopping on %s", pid, dir)
		}
	}
	c, err := m.connect()
	if err != nil {
		return s, err
	}
	s.URL = m.url
	ctx, cancel := context.WithTimeoutCause(ctx, statusTimeout, fmt.Errorf("waited %s", statusTimeout))
	defer cancel()
	return s, s.fetch(ctx, c)
}

// fetch fills in what the server says of itself.
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
	if s.Agents, err = c.Agents(ctx); err != nil {
		return err
	}
	s.Channels, err = c.Channels(ctx)
	return err
}

func (m *Main) printStatus(s serverStatus, output format) error {
	if output == asJSON {
		return m.printJSON(s)
	}
	state := "ready"
	if !s.Ready {
		state = "not ready: " + deref(s.Problem)
	}
	rows := [][]string{{"server", s.URL}, {"state", state}}
	if s.PID != nil {
		rows = append(rows, []string{"process", fmt.Sprint(*s.PID)}, []string{"data", deref(s.Data)})
	}
	return m.printTable(append(rows,
		[]string{"version", s.Version}, []string{"started", m.when(&s.StartedAt)}, []string{"threads", fmt.Sprint(s.Threads)},
		[]string{"runs", runCounts(s.Runs)}, []string{"agents", agentNames(s.Agents)}, []string{"channels", channelStates(s.Channels)},
	))
}

// runCounts are the numbers of runs by status, without those that are zero.
func runCounts(runs map[mailroom.Status]int) string {
	var counts []string
	for _, status := range []mailroom.Status{mailroom.StatusRunning, mailroom.StatusQueued, mailroom.StatusWaiting, mailroom.StatusCompleted, mailroom.StatusFailed, mailroom.StatusCancelled} {
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

// joinItems joins items to one cell that fits on a screen.
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
