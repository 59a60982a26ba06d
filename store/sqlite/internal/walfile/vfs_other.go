//go:build !linux

package walfile

// VFS returns the name of SQLite's own file layer.
func VFS() (string, error) { return "", nil }
