//go:build !linux

package proc

// Inside returns nothing: the working folders of processes cannot be read on this system.
func Inside(string) ([]int, error) { return nil, nil }
