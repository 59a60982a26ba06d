package sqlite

import (
	"database/sql/driver"
	"errors"

	"modernc.org/sqlite"
)

// Driver opens connections to SQLite. The zero value is the one that is built
// in; another puts a store on another SQLite, or on another file layer.
type Driver struct {
	// Connector is given the name of a database, file:/PATH?_pragma=…&_txlock=immediate,
	// and must set the pragmas on every connection, in their order. The
	// statements of its connections must take contexts.
	Connector func(name string) (driver.Connector, error)
	// Code returns the result code that an error of the driver has, if any
	// (https://sqlite.org/rescode.html).
	Code func(error) (code int, ok bool)
}

func builtIn() Driver {
	return Driver{
		Connector: sqlite.NewConnector,
		Code: func(err error) (int, bool) {
			var failed *sqlite.Error
			if !errors.As(err, &failed) {
				return 0, false
			}
			return failed.Code(), true
		},
	}
}
