package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/internal/datadir"
)

const (
	// stopPollInterval is the interval of checking whether the server has ended.
	stopPollInterval = 20 * time.Millisecond
	// stopReportInterval is the interval of progress messages.
	stopReportInterval = 5 * time.Second
)

func (m *Main) stopCommand() *cobra.Command {
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
			return exitErrorf(exitUsage, "use a duration such as 1m", "invalid --timeout %s", timeout)
		}
		p, dir, err := m.localServer()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.Release()) }()
		return m.stop(cmd.Context(), p, dir, now, timeout)
	}
	return cmd
}

func (m *Main) stop(ctx context.Context, p *datadir.Process, dir datadir.Dir, now bool, timeout time.Duration) error {
	var sig os.Signal = syscall.SIGTERM
	if now {
		sig = os.Kill
		m.infof("killing the server with process id %d on %s", p.PID, dir)
	} else {
		m.infof("stopping the server with process id %d on %s", p.PID, dir)
		m.printRunning(ctx)
	}
	if err := p.Signal(sig); err != nil {
		return exitErrorf(exitFailed, "", "%w", err)
	}
	if err := m.waitEnded(ctx, p, timeout); err != nil {
		return err
	}
	m.infof("server stopped")
	return nil
}

// printRunning prints how many runs the server waits for. A server that does not respond is stopped without this message.
func (m *Main) printRunning(ctx context.Context) {
	c, err := m.connect()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	stats, err := c.Stats(ctx)
	if n := stats.Runs[mailroom.StatusRunning]; err == nil && n > 0 {
		m.infof("waiting for %s to finish or be released", pluralize(n, "run"))
	}
}

// waitEnded waits until the server has ended, for timeout at most.
func (m *Main) waitEnded(ctx context.Context, p *datadir.Process, timeout time.Duration) error {
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
			m.infof("still waiting after %s", time.Since(begin).Round(time.Second))
		case <-late.C:
			return exitErrorf(exitFailed, "wait longer with --timeout, or kill the server with `"+m.commandLine("stop", "--now")+"`",
				"server with process id %d did not stop within %s", p.PID, timeout)
		case <-ctx.Done():
			m.infof("server with process id %d is still shutting down", p.PID)
			return context.Cause(ctx)
		}
	}
}
