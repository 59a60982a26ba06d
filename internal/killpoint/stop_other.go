//go:build !unix

package killpoint

import "errors"

func stopProcess() error { return errors.New("this system cannot stop a process") }
