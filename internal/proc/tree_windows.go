package proc

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// errSystem is the answer to everything that runs a program: only servers and remote workers of commands do, which this
// system cannot be. The commands that talk to a server work here.
var errSystem = errors.New("running agents needs Linux or macOS")

// unread returns false, unknown.
func unread(*os.File) bool { return false }

// attributes returns no attributes.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// tree is empty: no child is started here.
type tree struct {
	shim      int
	ownsGroup func() bool
}

func (c *Child) processorTime() time.Duration { return 0 }

func newTree(ID, Belongs) *tree { return &tree{} }

func (t *tree) signal(syscall.Signal) (live []int, err error) { return nil, nil }

// HideDescriptors does nothing: programs inherit no handle that is not named.
func HideDescriptors() error { return nil }

// KillLeftovers does nothing here.
func KillLeftovers(context.Context, ID, Belongs) (int, error) { return 0, nil }

func identify(int) (ID, error) { return ID{}, errSystem }

// Probe returns an error.
func Probe(context.Context) (Kind, error) { return KindNone, errSystem }

// Try returns an error.
func Try(context.Context, Kind) error { return errSystem }

// runShimOwner reports that no child can be started.
func (c *Child) runShimOwner(_ *exec.Cmd, started chan<- error) { started <- errSystem }

func (c *Child) endShim() *SurvivorsError { return nil }
