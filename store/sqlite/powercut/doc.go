// Package powercut checks that a store in an SQLite file loses nothing that it
// acknowledged when the power goes, or when the disk fails.
//
// It has tests only, which open store/sqlite on a disk made in Go: what was
// written and not synced is lost, kept, or torn, in any order. They are a module
// of their own because the SQLite that allows this, github.com/ncruces/go-sqlite3,
// is needed for nothing else. When the requirements of the outer module change,
// go mod tidy -e in here follows.
package powercut
