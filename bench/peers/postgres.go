package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// postgres is a private cluster that listens on a Unix socket only.
type postgres struct {
	*process
	dir string // folder of the socket
}

// postgresBinaries returns the folder with initdb and postgres: the newest version in
// the folders of Debian, which are not in PATH, or else the one in PATH.
func postgresBinaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	slices.Reverse(found)
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, filepath.Dir(path))
	}
	for _, dir := range found {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "postgres")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("PostgreSQL is not installed: on Debian, apt-get install postgresql")
}

func needsPostgres() error {
	_, err := postgresBinaries()
	return err
}

// startPostgres creates a cluster in dir and starts it. PostgreSQL refuses to run as
// root; then it runs as another user, see unprivileged.
func startPostgres(ctx context.Context, dir string) (_ *postgres, err error) {
	bin, err := postgresBinaries()
	if err != nil {
		return nil, err
	}
	uid, gid := uint32(0), uint32(0)
	if os.Getuid() == 0 {
		if uid, gid, err = unprivileged(); err != nil {
			return nil, err
		}
		if err := errors.Join(os.Chown(dir, int(uid), int(gid)), os.Chmod(filepath.Dir(dir), 0o711)); err != nil {
			return nil, fmt.Errorf("give a folder to the user of PostgreSQL: %w", err)
		}
	}
	data := filepath.Join(dir, "data")
	initdb := as(exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "peers", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions"), uid, gid)
	initdb.Dir = dir
	if output, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, output)
	}
	args := []string{"-D", data, "-k", dir}
	for _, setting := range []string{
		"listen_addresses=", "max_connections=200", "fsync=on", "synchronous_commit=on", "full_page_writes=on",
		"shared_buffers=256MB", "max_wal_size=4GB", "checkpoint_timeout=15min", "jit=off",
	} {
		args = append(args, "-c", setting)
	}
	server := as(exec.Command(filepath.Join(bin, "postgres"), args...), uid, gid)
	server.Dir = dir
	p := &postgres{dir: dir}
	p.process, err = startProcess(ctx, server, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, p.address())
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (p *postgres) address() string { return "host=" + p.dir + " user=peers dbname=postgres" }

// close requests PostgreSQL's fast shutdown.
func (p *postgres) close() error { return p.process.close(syscall.SIGINT) }

// unprivileged returns the ids of the user postgres or, if there is none, of the user
// `nobody`.
func unprivileged() (uid, gid uint32, err error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			continue
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err == nil {
			return uint32(uid), uint32(gid), nil
		}
	}
	return 0, 0, errors.New("PostgreSQL refuses to run as root, and neither of the users `postgres` and `nobody` exists: run this as another user")
}
