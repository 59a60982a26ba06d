//go:build !unix

package datadir

import (
	"context"
	"errors"
)

// Serve does nothing: this system does not tell who holds a lock.
func (h *Held) Serve(context.Context) error { return nil }

func (f Folder) holder() (pid int, err error) {
	return 0, errors.ErrUnsupported
}
