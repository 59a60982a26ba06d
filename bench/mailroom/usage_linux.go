package main

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// resident returns the resident memory of this process in bytes, or 0 if it is unknown.
func resident() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// cpuModel returns the model name of the first processor, or "".
func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(b) {
		if key, value, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(key)) == "model name" {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}

// processTime returns the CPU time of a process, or 0 if it is unknown or there is no such process.
func processTime(pid int) time.Duration {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The second field is the name of the program in parentheses, which may contain spaces. See proc_pid_stat(5).
	_, rest, ok := bytes.Cut(b, []byte(") "))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0
	}
	const tick = 10 * time.Millisecond // the unit in which Linux reports CPU times to programs
	var sum time.Duration
	for _, f := range fields[11:13] { // time in user mode, and in the kernel
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0
		}
		sum += time.Duration(n) * tick
	}
	return sum
}
