package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// oldest is the first SQLite version without the bug in which a WAL reset can lose commits
// (https://sqlite.org/wal.html#walresetbug).
const oldest = "3.51.3"

// walLimit is the size in bytes to which a checkpoint truncates a longer WAL file
// (journal_size_limit). Commits that reuse the rest of the file are cheaper than commits that
// extend it.
const walLimit = 16 << 20

// file returns a connector to the database file with pragmas and the file layer vfs; "" selects SQLite's default
// layer. Every connection of a store comes from it.
func (d *Driver) file(path, vfs string, pragmas ...string) (driver.Connector, error) {
	parameters := url.Values{
		"_txlock": {"immediate"}, // for the migrations; sessions begin explicitly
		"_pragma": pragmas,
	}
	if vfs != "" {
		parameters.Set("vfs", vfs)
	}
	return d.open(path, parameters)
}

func (d *Driver) open(path string, parameters url.Values) (driver.Connector, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return nil, fmt.Errorf("open database: invalid path %q", path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	u := url.URL{Scheme: "file", Path: abs, RawQuery: parameters.Encode()}
	connector, err := d.Connector(u.String())
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	return connector, nil
}

// writer returns a connector for the single writing connection. It creates the file if necessary.
func (d *Driver) writer(path string, busy time.Duration) (driver.Connector, error) {
	// Without spilling, a transaction that is rolled back has written nothing: the file layer may
	// hold writes only because a sync follows them in the same transaction.
	return d.file(path, d.VFS, append(writerPragmas(busy), "cache_spill(false)")...)
}

// migrator returns a connector for migrations, whose transactions may be larger than the memory.
func (d *Driver) migrator(path string, busy time.Duration) (driver.Connector, error) {
	return d.file(path, "", writerPragmas(busy)...)
}

func writerPragmas(busy time.Duration) []string {
	return []string{
		"busy_timeout(" + strconv.FormatInt(busy.Milliseconds(), 10) + ")", // first: the next pragma may meet a lock
		"journal_mode(wal)",
		"synchronous(full)",
		"wal_autocheckpoint(0)", // the keeper does it
		"journal_size_limit(" + strconv.Itoa(walLimit) + ")",
		"cache_size(-16384)", // SQLite scans all of it at the commit after a page split
		"temp_store(memory)",
	}
}

func (d *Driver) readers(path string, busy time.Duration) (driver.Connector, error) {
	return d.file(path, "",
		"busy_timeout("+strconv.FormatInt(busy.Milliseconds(), 10)+")",
		"query_only(true)",
		"wal_autocheckpoint(0)",
		"cache_size(-8192)",
		"temp_store(memory)",
	)
}

// connect opens the first connection. It retries while another handle creates the same file,
// because the change to WAL mode does not honor the busy timeout.
func connect(ctx context.Context, d *Driver, connector driver.Connector, busy time.Duration) (*session, error) {
	const again = 5 * time.Millisecond
	for deadline := time.Now().Add(busy); ; {
		s, err := newSession(ctx, d, connector)
		if !d.isBusy(err) || time.Now().After(deadline) {
			return s, err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// check refuses a SQLite that is too old, and a file that is not in WAL mode in spite of the
// pragma, as on file systems without shared memory.
func check(ctx context.Context, s *session) error {
	version, err := s.value(ctx, "SELECT sqlite_version()")
	if err != nil {
		return err
	}
	if err := supported(fmt.Sprint(version)); err != nil {
		return err
	}
	mode, err := s.value(ctx, "PRAGMA journal_mode")
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("the journal mode is %q, not wal: put the file on a local disk", mode)
	}
	return nil
}

func supported(version string) error {
	got, err := parseVersion(version)
	if err != nil {
		return err
	}
	least, err := parseVersion(oldest)
	if err != nil {
		return err
	}
	for i := range least {
		if got[i] != least[i] {
			if got[i] < least[i] {
				return fmt.Errorf("SQLite %s can lose commits: use %s or later", version, oldest)
			}
			break
		}
	}
	return nil
}

func parseVersion(s string) (v [3]int, err error) {
	parts := strings.Split(s, ".")
	if len(parts) < len(v) {
		return v, errors.New("invalid SQLite version: " + strconv.Quote(s))
	}
	for i := range v {
		if v[i], err = strconv.Atoi(parts[i]); err != nil {
			return v, fmt.Errorf("invalid SQLite version: %q", s)
		}
	}
	return v, nil
}
