package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/spf13/cobra"

	"mailroom/agent/exec"
	"mailroom/cmd/mailroom/internal/config"
	"mailroom/cmd/mailroom/internal/datadir"
	"mailroom/internal/recovery"
	"mailroom/store/sqlite"
)

func (m *Main) serveCommand() *cobra.Command {
	var listen, file string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server. Everything it keeps is in its data folder, which one server holds
at a time. SIGINT and SIGTERM shut it down in order, a second one at once.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&listen, "listen", "", "address to listen on; port 0 picks a free one (default 127.0.0.1:8420)")
	cmd.Flags().StringVar(&file, "config", "", "configuration file (default mailroom.toml in the data folder)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dir, err := datadir.Find(m.data, m.Env)
		if err != nil {
			return exitErrorf(exitUsage, "", "%w", err)
		}
		c, err := loadConfig(dir, file)
		if err != nil {
			return err
		}
		if listen != "" {
			if err := c.SetListen(listen); err != nil {
				return exitErrorf(exitUsage, "", "%w", err)
			}
		}
		if err := m.serve(cmd.Context(), dir, c); err != nil {
			return m.explainServeError(err)
		}
		return nil
	}
	return cmd
}

// explainServeError is why there is no server, or no longer. It is an error also when
// the context ended meanwhile.
func (m *Main) explainServeError(err error) error {
	if held, ok := errors.AsType[*datadir.InUseError](err); ok && held.PID != 0 {
		return exitErrorf(exitFailed, "use that one, or another folder with --data", "%w", err)
	}
	if _, ok := errors.AsType[*exitError](err); ok {
		return err
	}
	if _, ok := errors.AsType[*datadir.LostStoreError](err); ok {
		return exitErrorf(exitFailed, "put a backup in place with `mailroom restore FILE`, or remove that file to begin with an empty store", "%w", err)
	}
	if _, ok := errors.AsType[*sqlite.LostCommitsError](err); ok {
		return exitErrorf(exitFailed, "put a newer copy in place with `mailroom restore FILE`, or go on without them with `mailroom restore --accept-loss`", "%w", err)
	}
	return exitErrorf(exitFailed, "", "%w", err)
}

// serve holds the folder and runs a node on it until ctx ends.
func (m *Main) serve(ctx context.Context, dir datadir.Dir, c *config.Config) (err error) {
	log := slog.New(slog.NewTextHandler(m.Stderr, &slog.HandlerOptions{Level: c.LogLevel}))
	cert, secure, err := loadTLS(c, log)
	if err != nil {
		return err
	}
	for _, warning := range c.ReadTokens(m.Env) {
		log.Warn(warning)
	}
	if err := c.CheckTokens(); err != nil {
		return exitErrorf(exitConfig, "", "%w", err)
	}
	if err := m.hideSecrets(secretVariables(c)); err != nil {
		return err
	}
	bridge := c.Command != ""
	if !bridge {
		c.Command = m.programName()
	}
	held, err := dir.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	if err := held.MarkServer(ctx); err != nil {
		return err
	}
	if err := held.PrepareStore(); err != nil {
		return err
	}
	if c.Mark, err = held.EnsureProcessMark(); err != nil {
		return err
	}
	c.Data = string(dir)
	if err := killOrphans(ctx, c.Mark, log); err != nil {
		return err
	}
	if c.WhenAllDown == config.AllDownExit { // and whoever keeps it running starts it again
		if err := m.waitRestartBackoff(ctx, held); err != nil || ctx.Err() != nil {
			return err
		}
		defer func() {
			if ctx.Err() != nil {
				err = errors.Join(err, held.ClearStarts())
			}
		}()
	}
	store, err := sqlite.Open(ctx, dir.Database(), sqlite.Options{Guard: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	// After the store: a token beside an empty store is the sign of a lost one.
	token, err := held.EnsureToken()
	if err != nil {
		return err
	}
	n, err := newNode(ctx, store, dir.Files(), c, token, secure, log)
	if err != nil {
		return err
	}
	n.lock = held
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return exitErrorf(exitFailed, "choose another address with --listen", "%w", err)
	}
	url := address(ln.Addr(), c)
	if err := held.WriteAddress(url, cert); err != nil {
		return errors.Join(err, ln.Close())
	}
	m.printStarted(url, dir, c, bridge)
	defer context.AfterFunc(ctx, func() {
		defer recovery.Log(log, "the end of a command")
		m.printStopping()
	})()
	return n.run(ctx, ln, store.Failed())
}

// printStarted says where the server is, and warns if others can reach it without TLS.
func (m *Main) printStarted(url string, dir datadir.Dir, c *config.Config, bridge bool) {
	if bridge {
		m.printBridging(url, dir)
	} else {
		m.printListening(url, dir)
	}
	if c.Exposed() && !c.TLS() {
		m.printExposed()
	}
}

// waitRestartBackoff waits before a server goes on of which too many have ended just now.
func (m *Main) waitRestartBackoff(ctx context.Context, held *datadir.Lock) error {
	pause, err := held.RecordStart(time.Now())
	if err != nil || pause == 0 {
		return err
	}
	m.infof("it was started too often within two minutes: it goes on in %s", pause)
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return held.ClearStarts()
	}
}

// killOrphans ends what a killed server of the same folder left running: nobody reads
// what it says any more, and its runs are started anew.
func killOrphans(ctx context.Context, mark string, log *slog.Logger) error {
	n, err := exec.Reap(ctx, mark)
	if n > 0 {
		log.Warn("killed processes that a server which was killed had left", "processes", n)
	}
	if err != nil && ctx.Err() == nil {
		log.Warn("processes that a server which was killed had left could not all be ended", "error", err)
		return nil
	}
	return err
}

// address is the URL of a listener. One that listens everywhere is reached on
// the loopback address.
func address(at net.Addr, c *config.Config) string {
	scheme := "http://"
	if c.TLS() {
		scheme = "https://"
	}
	host, _, err := net.SplitHostPort(c.Listen)
	_, port, portErr := net.SplitHostPort(at.String())
	if err != nil || portErr != nil {
		return scheme + at.String()
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return scheme + net.JoinHostPort(host, port)
}
