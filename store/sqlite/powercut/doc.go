// Package powercut tests that a store in a SQLite file loses no acknowledged commit when the power
// is cut or the disk fails.
//
// Its tests open store/sqlite on a simulated disk: data that was written but not synced is lost,
// kept or torn, in any order. They are a separate module because only they need the SQLite that
// supports this, github.com/ncruces/go-sqlite3. Run go mod tidy -e here after a change to the
// requirements of the outer module.
// go mod tidy -e in here follows.
package powercut
