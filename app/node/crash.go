package node

import (
	"errors"
	"runtime/debug"

	"mailroom/internal/recovery"
)

// keepCrash archives the crash report of the previous server, if any, and opens the report of this process. Call it
// after the store has recorded the runs to which the crash is charged. A crash between the two leads to a second
// evaluation of the report, which then finds no workers left and charges no run twice.
func (n *Node) keepCrash(report []byte, uncharged bool) error {
	if len(report) > 0 {
		path, err := n.lock.KeepCrash()
		if err != nil {
			return err // the next start must not evaluate the report again
		}
		n.log.Warn("previous server crashed", "report", path, "charged_to_runs", !uncharged)
	}
	if err := n.reportCrashes(); err != nil {
		n.log.Warn("crash reports are unavailable", "error", err)
	}
	return nil
}

// reportCrashes makes the runtime write a crash report into the data folder.
func (n *Node) reportCrashes() error {
	if err := recovery.PrintLabels(); err != nil {
		return err
	}
	f, err := n.lock.CrashOutput()
	if err != nil {
		return err
	}
	return errors.Join(debug.SetCrashOutput(f, debug.CrashOptions{}), f.Close())
}
