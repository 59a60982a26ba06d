package sqlite

import (
	"database/sql/driver"
	"errors"

	"modernc.org/sqlite"

	"mailroom/store/sqlite/internal/walfile"
)

// Driver opens connections to SQLite. The zero value selects the built-in SQLite; tests use other
// builds or file layers.
type Driver struct {
	// Connector returns a connector for a database name of the form
	// file:/PATH?_pragma=…&_txlock=immediate. It must set the pragmas on every connection, in their
	// order. The statements of its connections must accept contexts.
	Connector func(name string) (driver.Connector, error)
	// Code returns the result code of a driver's error (https://sqlite.org/rescode.html); ok is
	// false for other errors.
	Code func(error) (code int, ok bool)
}

func builtIn() Driver {
	return Driver{
		Connector: func(name string) (driver.Connector, error) {
			vfs, err := walfile.VFS()
			if err != nil {
				return nil, err
			}
			if vfs != "" {
				name += "&vfs=" + vfs
			}
			return sqlite.NewConnector(name)
		},
		Code: func(err error) (int, bool) {
			var failed *sqlite.Error
			if !errors.As(err, &failed) {
				return 0, false
			}
			return failed.Code(), true
		},
	}
}
