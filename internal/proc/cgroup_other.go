//go:build !linux

package proc

import "errors"

// Cgroup limits the processes of children on Linux.
type Cgroup struct{}

// OpenCgroup returns an error: only Linux has cgroups.
func OpenCgroup() (*Cgroup, error) { return nil, errors.New("this system has no cgroups") }
