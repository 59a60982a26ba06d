//go:build !linux

package sqlite

// fileLayer returns "", which selects SQLite's own file layer.
func fileLayer() string { return "" }
