//go:build !linux

package main

import "time"

// resident returns 0, unknown: each of these systems reports the memory of a process in another way.
func resident() int64 { return 0 }

func cpuModel() string { return "" }

// processTime returns 0, unknown.
func processTime(int) time.Duration { return 0 }
