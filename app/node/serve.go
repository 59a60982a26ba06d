package node

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mailroom/agent/exec"
	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/app/datadir"
	"mailroom/app/manual"
	"mailroom/app/storage"
	"mailroom/client"
	"mailroom/internal/display"
	"mailroom/internal/recovery"
	"mailroom/store/sqlite"
)

func serveCommand(con *command.Console) *cobra.Command {
	var listen, file string
	cmd := &cobra.Command{
		Use:        "serve",
		SuggestFor: []string{"start", "server"},
		Short:      "Run the server",
		Long: `Run the server. All its data is in the data folder, which one server can use at a
time. SIGINT and SIGTERM shut it down gracefully, a second signal at once.`,
		Example: `  mailroom serve
  mailroom serve --data ./mail --listen 127.0.0.1:0`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&listen, "listen", "", "address to listen on; port 0 picks a free port (default 127.0.0.1:8420)")
	cmd.Flags().StringVar(&file, "config", "", "configuration file (default mailroom.toml in the data folder)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dir, err := datadir.Find(con.Data, con.Env)
		if err != nil {
			return command.Errorf(command.ExitUsage, "", "%w", err)
		}
		c, err := loadConfig(con, dir, file)
		if err != nil {
			return err
		}
		if listen != "" {
			if err := c.SetListen(listen); err != nil {
				return command.Errorf(command.ExitUsage, "", "%w", err)
			}
		}
		pages := manual.FromCode(cmd.Root())
		pages.Served = true
		book, err := manual.New(pages)
		if err != nil {
			return err
		}
		if err := serve(cmd.Context(), con, dir, c, book); err != nil {
			return explainServeError(con, err)
		}
		return nil
	}
	return cmd
}

// probeTimeout limits the request that asks which program uses the server's address.
const probeTimeout = 2 * time.Second

// explainListenError adds to err who uses the address, if it is another Mailroom server.
func explainListenError(ctx context.Context, address string, err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return command.Errorf(command.ExitFailed, "choose another address with --listen", "%w", err)
	}
	by := "another program"
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if health, err := client.New("http://"+address, "", client.WithMaxAttempts(1)).Health(ctx); err == nil &&
		health.Version != "" {
		by = "another Mailroom server, of version " + display.Line(command.Shorten(health.Version, 40))
	}
	return command.Errorf(command.ExitFailed, "stop it, or choose another address with --listen", "%s is in use by %s",
		address, by)
}

// explainServeError turns an error of the server into an exit error with a hint. The result
// counts as a failure even if the context was cancelled.
func explainServeError(con *command.Console, err error) error {
	if used, ok := errors.AsType[*datadir.InUseError](err); ok {
		return command.Errorf(command.ExitFailed, used.Hint(), "%w", err)
	}
	if _, ok := errors.AsType[*command.Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[*datadir.LostStoreError](err); ok {
		return command.Errorf(command.ExitFailed,
			"restore a backup with `mailroom restore FILE`, or remove that file to start with an empty store", "%w", err)
	}
	if _, ok := errors.AsType[*sqlite.LostCommitsError](err); ok {
		return command.Errorf(command.ExitFailed,
			"restore a newer backup with `mailroom restore FILE`, or continue without them with "+
				"`mailroom restore --accept-loss`", "%w", err)
	}
	return command.Errorf(command.ExitFailed, "", "%w", err)
}

// serve locks the folder and runs a node on it until ctx is done. If m is nil, the node shows no manual.
func serve(ctx context.Context, con *command.Console, dir datadir.Dir, c *config.Config, m *manual.Manual) (err error) {
	log := slog.New(slog.NewTextHandler(con.Stderr, &slog.HandlerOptions{Level: c.LogLevel}))
	cert, secure, err := loadTLS(c, log)
	if err != nil {
		return err
	}
	bridge := c.Command != ""
	if err := readEnvironment(con, dir, c, log); err != nil {
		return err
	}
	manager := supervise(ctx, con, c, log)
	defer func() { manager.end(err) }()
	held, err := dir.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	c.Trust = trustFile(con, c) // makes a folder that privatePaths looks for
	c.Data, c.Private = string(dir), privatePaths(con, c)
	if err := becomeServer(ctx, held, c, log); err != nil {
		return err
	}
	if c.WhenAllDown == config.AllDownExit { // a service manager restarts it
		if err := waitRestartBackoff(ctx, con, held); err != nil || ctx.Err() != nil {
			return err
		}
		defer func() {
			if ctx.Err() != nil {
				err = errors.Join(err, held.ClearStarts())
			}
		}()
	}
	w := &waiting{config: c, secure: secure, log: log, say: manager.say}
	defer func() { err = errors.Join(err, w.close()) }()
	handles, err := w.open(ctx, func() (*storage.Handles, error) { return storage.Open(ctx, held, c, log) })
	if err != nil && ctx.Err() != nil {
		return nil // stopped before it served anything
	} else if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, handles.Close()) }()
	// The token is created after the store, because a folder with a token and without a store counts as one that lost
	// its store.
	token, err := ensureToken(held, c)
	if err != nil {
		return err
	}
	wire, err := storage.OpenWire(c, log)
	if err != nil {
		return err
	}
	n, err := New(ctx, Options{
		Store: handles.Store, Lanes: handles.Lanes, Shared: c.Store.Kind == config.StorePostgres, Tables: handles.Tables,
		Wire: wire, Config: c, Token: token, Files: dir.Files(), SharedFiles: handles.Files, TLS: secure,
		Log: log, Lock: held, Manual: m,
	})
	if err != nil {
		return err
	}
	ln, err := w.take(ctx)
	if err != nil {
		return err
	}
	url := c.URL(ln.Addr().String())
	if err := held.WriteAddress(url, cert); err != nil {
		return errors.Join(err, ln.Close())
	}
	printStarted(con, url, dir, c, bridge)
	manager.serves(url, n)
	defer context.AfterFunc(ctx, func() {
		defer recovery.Log(log, "shutdown message")
		con.Stopping()
	})()
	return n.Run(ctx, ln, handles.Lost)
}

// becomeServer marks this process as the server of the folder, and ends what a killed one has left running. To find
// that, it reads /proc of every process of the machine; the first server of a folder has nothing to find.
func becomeServer(ctx context.Context, held *datadir.Lock, c *config.Config, log *slog.Logger) (err error) {
	if err := held.MarkServer(ctx); err != nil {
		return err
	}
	var used bool
	if c.Mark, used, err = held.EnsureProcessMark(); err != nil || !used {
		return err
	}
	return killOrphans(ctx, c.Mark, log)
}

// readEnvironment reads what the configuration takes from the environment, and hides its secrets.
func readEnvironment(con *command.Console, dir datadir.Dir, c *config.Config, log *slog.Logger) error {
	for _, warning := range c.ReadTokens(con.Env) {
		log.Warn(warning)
	}
	if err := c.CheckTokens(); err != nil {
		return command.Errorf(command.ExitConfig, "", "%w", err)
	}
	if err := hideSecrets(con, c.SecretVariables()); err != nil {
		return err
	}
	// A user copies the hint to another shell, where the variables of this process are not set. So the hint names
	// every data folder but the default one.
	if usual, err := datadir.Default(con.Env); err != nil || usual != dir {
		con.Data = string(dir)
	}
	con.UseAbsolutePaths()
	c.Command = con.CommandPrefix()
	return nil
}

// ensureToken returns the operator's token. If the configuration names a file with the token, it copies the token to
// the data folder, where commands on this machine find it.
func ensureToken(held *datadir.Lock, c *config.Config) (string, error) {
	if c.Token.OperatorFile != "" {
		return held.CopyToken(c.Token.OperatorFile)
	}
	return held.EnsureToken()
}

// printStarted prints the server's address, and a warning if other machines can reach it
// without TLS.
func printStarted(con *command.Console, url string, dir datadir.Dir, c *config.Config, bridge bool) {
	if bridge {
		printBridging(con, url, dir)
	} else {
		printListening(con, url, dir)
	}
	if c.Exposed() && !c.TLS() {
		printExposed(con)
	}
}

// waitRestartBackoff pauses the start if the folder's servers have ended too often recently.
func waitRestartBackoff(ctx context.Context, con *command.Console, held *datadir.Lock) error {
	pause, err := held.RecordStart(time.Now())
	if err != nil || pause == 0 {
		return err
	}
	con.Infof("too many restarts within two minutes; starting in %s", pause)
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return held.ClearStarts()
	}
}

// killOrphans kills agent processes that a killed server of the same folder left running.
// Their output is lost and their runs start again.
func killOrphans(ctx context.Context, mark string, log *slog.Logger) error {
	n, err := exec.Reap(ctx, mark)
	if n > 0 {
		log.Warn("killed orphaned agent processes of the previous server", "processes", n)
	}
	if err != nil && ctx.Err() == nil {
		log.Warn("could not kill all orphaned agent processes of the previous server; they may still change files",
			"error", err)
		return nil
	}
	return err
}

// printListening prints the server's address and the next commands.
func printListening(con *command.Console, url string, dir datadir.Dir) {
	con.Infof("listening on %s, data folder %s\nnext, in another terminal:\n  %s", url, dir,
		con.CommandLine("send", "hello"))
	con.Infof("or `%s` for the console in a browser, at %s; the manual is at %s/docs/", con.CommandLine("open"), url, url)
}

// printBridging prints the bridge's address and how to show its state.
func printBridging(con *command.Console, url string, dir datadir.Dir) {
	con.Infof("listening on %s, data folder %s\nto show its state, in another terminal:\n  %s", url, dir,
		con.CommandLine("channels"))
}

func printExposed(con *command.Console) {
	con.Infof("warning: this address is reachable from other machines without encryption: restrict access to the proxy")
}
