package main

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// volumeInMemory returns what the kernel says of [inMemory], nothing if there is no such file system.
func volumeInMemory() (v volume) {
	const tmpfs, noExec = 0x01021994, 8 // linux/magic.h, and ST_NOEXEC of statvfs(3)
	var st syscall.Statfs_t
	info, err := os.Stat(inMemory)
	if err != nil || syscall.Statfs(inMemory, &st) != nil || st.Type != tmpfs {
		return volume{}
	}
	v.free, v.programs = st.Bavail*uint64(st.Bsize), st.Flags&noExec == 0
	v.shared = info.Mode()&os.ModeSticky != 0 && info.Mode().Perm() == 0o777
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return volume{}
	}
	for line := range bytes.Lines(text) {
		if words := bytes.Fields(line); len(words) > 1 && string(words[0]) == "MemAvailable:" {
			kib, _ := strconv.ParseUint(string(words[1]), 10, 64) // none if the kernel does not say it
			v.memory = kib << 10
		}
	}
	return v
}
