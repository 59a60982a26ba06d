//go:build !linux

package sqlite

// fileLayer returns "": SQLite's own file layer.
func fileLayer() string { return "" }
