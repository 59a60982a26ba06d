//go:build !linux

package walfile

// VFS returns "": SQLite's own file layer.
func VFS() string { return "" }
