package sqlite

import (
	"database/sql/driver"
	"errors"

	"modernc.org/sqlite"
)

// Driver opens connections to SQLite. The zero value selects the built-in SQLite; tests use other
// builds or file layers.
type Driver struct {
	// Connector returns a connector for a database name of the form
	// file:/PATH?_pragma=…&_txlock=immediate. It must set the pragmas on every connection, in their
	// order. The statements of its connections must accept contexts.
	Connector func(name string) (driver.Connector, error)
	// VFS is the name of SQLite's file layer for the connection that writes; "" is the default one.
	VFS string
	// Code returns the result code of a driver's error (https://sqlite.org/rescode.html); ok is
	// false for other errors.
	Code func(error) (code int, ok bool)
}

func builtIn() Driver {
	return Driver{
		Connector: func(name string) (driver.Connector, error) {
			connector, err := sqlite.NewConnector(name)
			return builtInConnector{connector, name}, err
		},
		VFS: fileLayer(),
		Code: func(err error) (int, bool) {
			if failed, ok := errors.AsType[*connError](err); ok {
				return failed.code, true
			}
			if failed, ok := errors.AsType[*sqlite.Error](err); ok { // of a migration
				return failed.Code(), true
			}
			return 0, false
		},
	}
}

// builtInConnector connects database/sql, which the migrations use, to the built-in SQLite. A session opens a conn with
// the same name instead.
type builtInConnector struct {
	driver.Connector
	name string
}
