package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"

	"mailroom/store"
)

var errDisk = errors.New("the disk is gone")

// trap is a Driver whose commits fail while it is set.
type trap struct{ set atomic.Bool }

func (p *trap) driver() Driver {
	inner := builtIn()
	return Driver{
		Connector: func(name string) (driver.Connector, error) {
			connector, err := inner.Connector(name)
			return trapConnector{connector, p}, err
		},
		Code: func(err error) (int, bool) {
			if errors.Is(err, errDisk) {
				return sqlite3.SQLITE_IOERR_FSYNC, true
			}
			return inner.Code(err)
		},
	}
}

type trapConnector struct {
	driver.Connector
	trap *trap
}

func (c trapConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	return trapConn{conn, c.trap}, err
}

type trapConn struct {
	driver.Conn
	trap *trap
}

func (c trapConn) Prepare(text string) (driver.Stmt, error) {
	stmt, err := c.Conn.Prepare(text)
	if err != nil || text != "COMMIT" {
		return stmt, err
	}
	return trapCommit{stmt.(drivenStatement), c.trap}, nil
}

type trapCommit struct {
	drivenStatement
	trap *trap
}

func (c trapCommit) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if c.trap.set.Load() {
		return nil, errDisk
	}
	return c.drivenStatement.ExecContext(ctx, args)
}

func TestAFailedCommitEndsWritingUntilTheStoreIsOpenedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	var p trap
	s := openAt(t, path, Options{Driver: p.driver()})
	mustPut(t, s, "before")
	p.set.Store(true)
	for range 2 {
		err := put(t, s, "lost")
		wantUnavailable(t, err)
		if !errors.Is(err, store.ErrClosed) || !errors.Is(err, errDisk) {
			t.Errorf("got error %v, want one that wraps %v and %v", err, store.ErrClosed, errDisk)
		}
		p.set.Store(false) // the disk works again, but the file's state was not checked
	}
	if got := count(t, s); got != 1 {
		t.Errorf("rows of a view after the error: got %d, want 1", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := openAt(t, path, Options{})
	mustPut(t, again, "after")
	if got := count(t, again); got != 2 {
		t.Errorf("rows after opening again: got %d, want 2", got)
	}
}
