package main

import (
	"errors"
	"runtime/debug"

	"mailroom/internal/recovery"
)

// keepCrash keeps the crash report of the server before, if there is one, and opens the one of this process. The verdict
// on the report must be in the store by then: what crashes before the report has its own name is judged by it again, when
// no worker is left to judge.
func (n *node) keepCrash(report []byte, uncharged bool) error {
	if len(report) > 0 {
		path, err := n.lock.KeepCrash()
		if err != nil {
			return err // the next start must not judge by it again
		}
		n.log.Warn("the server crashed before this start", "report", path, "charged_to_runs", !uncharged)
	}
	if err := n.reportCrashes(); err != nil {
		n.log.Warn("a crash of this server will leave no report", "error", err)
	}
	return nil
}

// reportCrashes makes the runtime write a crash report into the data folder.
func (n *node) reportCrashes() error {
	if err := recovery.PrintLabels(); err != nil {
		return err
	}
	f, err := n.lock.CrashOutput()
	if err != nil {
		return err
	}
	return errors.Join(debug.SetCrashOutput(f, debug.CrashOptions{}), f.Close())
}
