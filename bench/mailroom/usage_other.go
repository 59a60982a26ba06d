//go:build !linux

package main

// resident is not known: each system tells it in another way.
func resident() int64 { return 0 }

func cpuModel() string { return "" }
