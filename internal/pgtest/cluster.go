// Package pgtest runs private PostgreSQL clusters for tests and benchmarks, from the binaries of the
// distribution.
//
// A cluster listens on a Unix socket only. A watcher process stops it and removes its folder when
// the process that started it ends, also after a panic or SIGKILL.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"mailroom/internal/machinetest"
)

const (
	role     = "pgtest"
	database = "postgres"

	defaultPort = 5432

	startTimeout = 5 * time.Minute
	stopTimeout  = 5 * time.Minute
)

// Options configure a cluster.
type Options struct {
	// Dir is the parent of the cluster's folder; "" selects the temporary folder.
	Dir string
	// Settings are lines of postgresql.conf, such as "fsync=off".
	Settings []string
	// Certificate and Key, in PEM, let the server also listen on a port of 127.0.0.1, with TLS.
	Certificate, Key []byte
}

// Cluster is a private cluster with a superuser without a password. Its methods are not for
// concurrent use, except URL and Schema.
type Cluster struct {
	bin, dir string
	port     int
	held     *machinetest.Port // nil without a certificate
	settings []string
	user     credential
	watched  io.Closer // the watcher cleans up when this end of its pipe is closed
	watcher  *exec.Cmd
	server   *exec.Cmd
	exited   chan struct{} // closed after the server has been waited for
	schemas  atomic.Int64
}

// Installed returns an error that names what to install if the binaries are missing.
func Installed() error {
	_, err := binaries()
	return err
}

// binaries returns the folder with initdb and postgres: the newest version in the folders of Debian,
// which are not in PATH, or else the one in PATH.
func binaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	slices.Reverse(found)
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, filepath.Dir(path))
	}
	for _, dir := range found {
		_, initdb := os.Stat(filepath.Join(dir, "initdb"))
		_, postgres := os.Stat(filepath.Join(dir, "postgres"))
		if initdb == nil && postgres == nil {
			return dir, nil
		}
	}
	return "",
		errors.New("PostgreSQL is not installed: run make programs, which names what is missing, or as root installs it")
}

// Start creates a cluster and starts it. PostgreSQL refuses to run as root, so root starts it as the
// user postgres or, if there is none, as another user without rights.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	return create(ctx, o, func(c *Cluster) error {
		if err := c.initialize(ctx); err != nil {
			return err
		}
		return c.secure(o)
	})
}

// initialize makes the files of a new cluster.
func (c *Cluster) initialize(ctx context.Context) error {
	return c.run(ctx, filepath.Join(c.bin, "initdb"), "--no-sync", "-D", c.data(), "-U", role, "-A", "trust",
		"-E", "UTF8", "--locale=C", "--no-instructions")
}

// create starts a cluster. fill writes its data folder.
func create(ctx context.Context, o Options, fill func(c *Cluster) error) (*Cluster, error) {
	c, err := prepare(o, fill)
	if err != nil {
		return nil, err
	}
	if err := c.Restart(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// prepare creates a cluster without starting it. fill writes its data folder.
func prepare(o Options, fill func(c *Cluster) error) (_ *Cluster, err error) {
	c := &Cluster{port: defaultPort, settings: o.Settings}
	if c.bin, err = binaries(); err != nil {
		return nil, err
	}
	if c.user, err = unprivileged(); err != nil {
		return nil, err
	}
	if c.dir, err = os.MkdirTemp(o.Dir, "pgtest-*"); err != nil {
		return nil, err
	}
	if err := c.watch(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(c.dir))
	}
	if err := fill(c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// watch starts the watcher: a shell that reads from a pipe until this process closes its end or
// dies. It runs as the cluster's user, which owns the folder, in a process group of its own, so that
// signals from a terminal do not reach it.
func (c *Cluster) watch() error {
	if err := c.user.own(c.dir); err != nil {
		return err
	}
	const script = `read -r _
for n in 1 2 3 4 5; do
	"$1/pg_ctl" -D "$2/data" -m immediate -w stop
	rm -rf "$2" && exit
	sleep 0.2
done`
	c.watcher = c.command("/bin/sh", "-c", script, "pgtest", c.bin, c.dir)
	c.watcher.Dir = "/"
	c.watcher.SysProcAttr.Setpgid = true
	pipe, err := c.watcher.StdinPipe()
	if err != nil {
		return err
	}
	c.watched = pipe
	return c.watcher.Start()
}

// run runs a program to its end.
func (c *Cluster) run(ctx context.Context, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cmd := c.command(program, args...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	stop := context.AfterFunc(ctx, func() {
		_ = cmd.Process.Kill() // an error means that it has ended
	})
	defer stop()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, &output)
	}
	return nil
}

// command returns a command that runs as the cluster's user in its folder.
func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.user.credential()}
	return cmd
}

// URL returns a connection string for the superuser.
func (c *Cluster) URL() string {
	url := "host=" + c.dir + " user=" + role + " dbname=" + database
	if c.port != defaultPort {
		url += " port=" + strconv.Itoa(c.port)
	}
	return url
}

// Restart starts the server after Kill or Stop, and waits until it accepts connections.
func (c *Cluster) Restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("PostgreSQL is not ready after %s", startTimeout))
	defer cancel()
	for {
		err := c.start()
		if err != nil {
			return err
		}
		ready, err := c.ready(ctx)
		if ready || err != nil {
			return err
		}
		// The server exited at once. After a kill, its old processes may hold the shared memory for a moment, and the
		// new server refuses to start until they have ended.
	}
}

func (c *Cluster) start() error {
	log, err := os.OpenFile(c.logFile(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	args := []string{"-D", c.data(), "-k", c.dir, "-c", "listen_addresses="}
	for _, setting := range c.settings {
		args = append(args, "-c", setting)
	}
	server := c.command(filepath.Join(c.bin, "postgres"), args...)
	server.Stdout, server.Stderr = log, log
	// A process group of its own: the interrupt of a terminal is for the owner alone.
	server.SysProcAttr.Setpgid = true
	if err := errors.Join(server.Start(), log.Close()); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	exited := make(chan struct{})
	c.server, c.exited = server, exited
	go func() {
		// The exit state of a server that was killed or stopped is of no interest.
		_ = server.Wait()
		close(exited)
	}()
	return nil
}

// ready waits until the server accepts connections, and returns false if it exited.
func (c *Cluster) ready(ctx context.Context) (bool, error) {
	const interval = 20 * time.Millisecond
	for {
		conn, err := pgx.Connect(ctx, c.URL())
		if err == nil {
			return true, conn.Close(ctx)
		}
		select {
		case <-c.exited:
			select {
			case <-time.After(interval):
				return false, nil
			case <-ctx.Done():
			}
		case <-time.After(interval):
			continue
		case <-ctx.Done():
		}
		log, _ := os.ReadFile(c.logFile()) // the log only explains the error
		return false, fmt.Errorf("%w: %w: %s", context.Cause(ctx), err, log)
	}
}

func (c *Cluster) logFile() string { return filepath.Join(c.dir, "log") }

// Kill kills the server with SIGKILL, as a crash of the machine would, and waits for its end.
func (c *Cluster) Kill() error { return c.signal(syscall.SIGKILL) }

// Stop ends the server with PostgreSQL's fast shutdown, which ends all connections.
func (c *Cluster) Stop() error { return c.signal(syscall.SIGINT) }

func (c *Cluster) signal(by os.Signal) error {
	if c.server == nil {
		return nil
	}
	if err := c.server.Process.Signal(by); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop PostgreSQL: %w", err)
	}
	select {
	case <-c.exited:
		return nil
	case <-time.After(stopTimeout):
		return fmt.Errorf("PostgreSQL did not stop within %s", stopTimeout)
	}
}

// CPUTime returns the CPU time of the server that has ended last, with all its processes.
func (c *Cluster) CPUTime() time.Duration {
	<-c.exited
	state := c.server.ProcessState
	return state.UserTime() + state.SystemTime()
}

// Terminate ends the connections whose application_name is name, and returns their number. If name is "", it ends all
// connections but its own.
func (c *Cluster) Terminate(ctx context.Context, name string) (n int, err error) {
	err = c.with(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND ($1 = '' OR application_name = $1)) t`,
			name).Scan(&n)
	})
	return n, err
}

// with runs f with a connection of the superuser.
func (c *Cluster) with(ctx context.Context, f func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, c.URL())
	if err != nil {
		return err
	}
	return errors.Join(f(conn), conn.Close(ctx))
}

// Close stops the server and removes its folder.
func (c *Cluster) Close() error {
	err := c.Stop()
	closed := c.watched.Close()
	if c.held != nil {
		closed = errors.Join(closed, c.held.Release())
	}
	// If the parent folder belongs to root, the watcher lacks the permission to remove the folder.
	return errors.Join(err, closed, c.watcher.Wait(), os.RemoveAll(c.dir))
}
