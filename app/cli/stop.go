package cli

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/app/command"
	"mailroom/app/datadir"
)

const (
	// stopPollInterval is how often stop checks whether the server has ended.
	stopPollInterval = 20 * time.Millisecond
	// stopReportInterval is the time between two progress messages while the server ends.
	stopReportInterval = 5 * time.Second
)

func stopCommand(con *command.Console) *cobra.Command {
	var now bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "Stop the server of the data folder",
		Long: `Shut down the server of the data folder and wait until it has ended. Its runs finish or
are released first, within shutdown_grace. Ctrl-C ends the wait, not the shutdown.

Only the process that holds the folder's lock gets a signal.`,
		Example: `  mailroom stop
  mailroom stop --data /srv/mailroom --timeout 5m`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&now, "now", false, "kill the server; the next server continues its runs")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "maximum time to wait")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if timeout <= 0 {
			return command.Errorf(command.ExitUsage, "use a duration such as 1m", "invalid --timeout %s", timeout)
		}
		p, dir, err := localServer(con)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.Release()) }()
		return stopServer(cmd.Context(), con, p, dir, now, timeout)
	}
	return cmd
}

func stopServer(
	ctx context.Context, con *command.Console, p *datadir.Process, dir datadir.Dir, now bool, timeout time.Duration,
) error {
	var sig os.Signal = syscall.SIGTERM
	if now {
		sig = os.Kill
		con.Infof("killing the server with process id %d on %s", p.PID, dir)
	} else {
		con.Infof("stopping the server with process id %d on %s", p.PID, dir)
		printRunning(ctx, con)
	}
	if err := p.Signal(sig); err != nil {
		return command.Errorf(command.ExitFailed, "", "%w", err)
	}
	if err := waitEnded(ctx, con, p, timeout); err != nil {
		return err
	}
	con.Infof("server stopped")
	return nil
}

// printRunning prints how many runs the server waits for. If the server does not answer, it prints nothing, and the
// server is stopped all the same.
func printRunning(ctx context.Context, con *command.Console) {
	c, err := connect(con)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	stats, err := c.Stats(ctx)
	if n := stats.Runs[mailroom.StatusRunning]; err == nil && n > 0 {
		con.Infof("waiting for %s to finish or be released", pluralize(n, "run"))
	}
}

// waitEnded waits until the server has ended, for timeout at most.
func waitEnded(ctx context.Context, con *command.Console, p *datadir.Process, timeout time.Duration) error {
	begin := time.Now()
	look, say := time.NewTicker(stopPollInterval), time.NewTicker(stopReportInterval)
	defer look.Stop()
	defer say.Stop()
	late := time.NewTimer(timeout)
	defer late.Stop()
	for {
		if ended, err := p.Ended(); ended || err != nil {
			return err
		}
		select {
		case <-look.C:
		case <-say.C:
			con.Infof("still waiting after %s", time.Since(begin).Round(time.Second))
		case <-late.C:
			return command.Errorf(command.ExitFailed,
				"wait longer with --timeout, or kill the server with `"+con.CommandLine("stop", "--now")+"`",
				"server with process id %d did not stop within %s", p.PID, timeout)
		case <-ctx.Done():
			con.Infof("server with process id %d is still shutting down", p.PID)
			return context.Cause(ctx)
		}
	}
}
