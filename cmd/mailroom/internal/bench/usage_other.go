//go:build !linux

package bench

// cpuModel is not known: each system tells it in another way.
func cpuModel() string { return "" }
