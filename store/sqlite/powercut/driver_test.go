package powercut

import (
	"database/sql/driver"
	"errors"
	"strings"

	"github.com/ncruces/go-sqlite3"
	ncruces "github.com/ncruces/go-sqlite3/driver"
	"github.com/ncruces/go-sqlite3/ext/fts5"

	"mailroom/store/sqlite"
)

func init() { sqlite3.AutoExtension(fts5.Register) }

// on returns the driver for stores on a disk registered under name. A synchronous other than ""
// replaces the setting of the store.
func on(name, synchronous string) sqlite.Driver {
	return sqlite.Driver{
		Connector: func(database string) (driver.Connector, error) {
			if synchronous != "" {
				database = strings.ReplaceAll(database, "synchronous%28full%29", "synchronous%28"+synchronous+"%29")
			}
			return (&ncruces.SQLite{}).OpenConnector(database + "&vfs=" + name)
		},
		Code: func(err error) (int, bool) {
			var code sqlite3.ExtendedErrorCode
			if errors.As(err, &code) {
				return int(code), true
			}
			var primary sqlite3.ErrorCode
			ok := errors.As(err, &primary)
			return int(primary), ok
		},
	}
}
