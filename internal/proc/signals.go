package proc

import (
	"os"
	"os/signal"
	"syscall"
)

// inheritedIgnores are the signals that this process was started with as ignored: INT by a shell that runs it in the
// background of a script, HUP by nohup. The Go runtime leaves these two as they are and catches all others.
//
// archtest: the state at the start, never written.
var inheritedIgnores = ignored()

func ignored() (all []os.Signal) {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
}

// catchIgnored catches the signals that this process ignores until release. A child that starts until then has
// their default action, because exec resets what is caught, while it passes on what is ignored: a program that ignores
// INT is stopped only by TERM, after its whole grace, and a shell cannot even trap it.
func catchIgnored() (release func()) {
	all := append(ignored(), inheritedIgnores...)
	if len(all) == 0 {
		return func() {} // Notify without signals would catch them all
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, all...)
	return func() { signal.Stop(c) }
}
