package datadir

import (
	"context"
	"errors"
)

// checkSystem returns why no server can use a folder here: it relies on locks, syncs and processes of a Unix system.
func checkSystem() error {
	return errors.New("the server needs Linux or macOS; the commands that talk to a server elsewhere work here: " +
		"set MAILROOM_URL and MAILROOM_TOKEN, or use mailroom context add")
}

// MarkServer returns an error.
func (h *Lock) MarkServer(context.Context) error { return checkSystem() }

// serverPID returns 0, because no server runs on this system.
func (f Dir) serverPID() (pid int, err error) { return 0, nil }
