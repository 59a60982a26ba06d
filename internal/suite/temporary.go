package main

import (
	"fmt"
	"os"
)

const (
	// inMemory is the folder of Linux whose files are in memory. It is as open to all users as /tmp.
	inMemory = "/dev/shm"

	// leastFree is the free space in inMemory, and leastMemory the memory of the machine, that the files of tests may
	// take without need.
	leastFree   = 4 << 30
	leastMemory = 8 << 30
)

// volume is a file system in memory.
type volume struct {
	free     uint64 // bytes
	memory   uint64 // bytes of memory that programs can still get
	programs bool   // its files can be executed
	shared   bool   // every user may create files, and remove only his own
}

func (v volume) suits() bool {
	return v.free >= leastFree && v.memory >= leastMemory && v.programs && v.shared
}

// moveTemporary lets the programs of the steps keep their temporary files in memory, and reports whether it does.
//
// Most tests of stores and servers sync with each commit. No test cuts the power of the machine, so a disk proves
// nothing: what a killed program has written outlives it in memory, too, and tests of power cuts have a file system of
// their own that forgets. But each sync waits for the disk, and takes processor time of the kernel.
//
// The folder has the same name in each run, because a cached result of a test is only valid with the same TMPDIR. The
// go command keeps its own files, gigabytes of programs, where they were.
func moveTemporary(v volume, getenv func(string) string, setenv func(name, value string) error) (bool, error) {
	if getenv("TMPDIR") != "" || !v.suits() {
		return false, nil
	}
	if getenv("GOTMPDIR") == "" {
		if err := setenv("GOTMPDIR", os.TempDir()); err != nil {
			return false, fmt.Errorf("keep the files of the go command: %w", err)
		}
	}
	return true, setenv("TMPDIR", inMemory)
}
