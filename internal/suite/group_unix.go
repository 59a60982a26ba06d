//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// leadGroup makes the process of cmd the leader of a process group, so that a signal reaches what it starts too: make
// and go end at once on an interrupt and leave their children alone.
func leadGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func interruptGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // all may have ended
