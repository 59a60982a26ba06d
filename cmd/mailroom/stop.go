package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/cmd/mailroom/internal/datadir"
)

const (
	// stopPollInterval is how often stop looks whether the server has ended.
	stopPollInterval = 20 * time.Millisecond
	// stopReportInterval is how often stop says that it still waits.
	stopReportInterval = 5 * time.Second
)

func (m *Main) stopCommand() *cobra.Command {
	var now bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "Shut the server of the data folder down",
		Long: `Shut the server of the data folder down, and wait until it has ended. Its runs end or
are given back first, within shutdown_grace. Ctrl-C ends the wait and not the shutdown.

The server is the process that holds the lock of the folder; no other process gets a
signal.`,
		Example: `  mailroom stop
  mailroom stop --data /srv/mailroom --timeout 5m`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&now, "now", false, "kill it: the next server takes its runs up again")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to wait for its end")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if timeout <= 0 {
			return exitErrorf(exitUsage, "give a time such as 1m", "--timeout is %s, which leaves no time to wait", timeout)
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
	m.infof("the server has ended")
	return nil
}

// printRunning says for how many runs the server waits before it ends. A server that does not answer is stopped all the same.
func (m *Main) printRunning(ctx context.Context) {
	c, err := m.connect()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	stats, err := c.Stats(ctx)
	if n := stats.Runs[mailroom.StatusRunning]; err == nil && n > 0 {
		m.infof("waiting for its %s to end or to be given back", pluralize(n, "run"))
	}
}

// waitEnded waits until the server has ended.
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
			return exitErrorf(exitFailed, "wait longer with --timeout, or kill it with `"+m.commandLine("stop", "--now")+"`",
				"the server with process id %d has not ended within %s", p.PID, timeout)
		case <-ctx.Done():
			m.infof("the server with process id %d goes on shutting down", p.PID)
			return context.Cause(ctx)
		}
	}
}
