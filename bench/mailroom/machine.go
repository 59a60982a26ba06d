package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Machine describes the machine and the software of a measurement.
type Machine struct {
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	CPU     string `json:"cpu,omitempty"` // model, if known
	Cores   int    `json:"cores"`         // available to this process
	Go      string `json:"go"`
	SQLite  string `json:"sqlite"`
	Version string `json:"version"` // version of Mailroom
	// Fsync is the time to append 1 KiB to a file in the measured folder and sync it.
	Fsync Times `json:"fsync"`
}

func describeMachine(ctx context.Context, folder, version string) (Machine, error) {
	m := Machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPU: cpuModel(), Cores: runtime.GOMAXPROCS(0),
		Go: runtime.Version(), Version: version,
	}
	var err error
	if m.SQLite, err = sqliteVersion(ctx); err != nil {
		return m, err
	}
	m.Fsync, err = fsyncTimes(ctx, filepath.Join(folder, "fsync"))
	return m, err
}

// sqliteVersion queries the driver that store/sqlite registers.
func sqliteVersion(ctx context.Context) (version string, err error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return "", fmt.Errorf("query the SQLite version: %w", err)
	}
	err = db.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version)
	if err = errors.Join(err, db.Close()); err != nil {
		return "", fmt.Errorf("query the SQLite version: %w", err)
	}
	return version, nil
}

// fsyncTimes measures how long a sync of the file at path takes, for at most a second.
func fsyncTimes(ctx context.Context, path string) (t Times, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return t, fmt.Errorf("measure fsync: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(path)) }()
	var took histogram
	record := bytes.Repeat([]byte("fsync..\n"), 128)
	for began := time.Now(); took.times().Count < 1000 && time.Since(began) < time.Second; {
		if ctx.Err() != nil {
			return t, context.Cause(ctx)
		}
		at := time.Now()
		if _, err := f.Write(record); err != nil {
			return t, fmt.Errorf("measure fsync: %w", err)
		}
		if err := f.Sync(); err != nil {
			return t, fmt.Errorf("measure fsync: %w", err)
		}
		took.add(time.Since(at))
	}
	return took.times(), nil
}
