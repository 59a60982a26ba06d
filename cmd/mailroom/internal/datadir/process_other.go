//go:build !unix

package datadir

import (
	"context"
	"errors"
)

// Serve does nothing, because this system does not report lock owners.
func (h *Held) Serve(context.Context) error { return nil }

func (f Folder) holder() (pid int, err error) {
	return 0, errors.ErrUnsupported
}
