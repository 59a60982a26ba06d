package projectdir

import (
	"context"
	"os"
	"os/exec"
	"time"
)

// GitTimeout bounds a read of a repository.
const GitTimeout = 5 * time.Second

// Git returns a command that reads the repository of a folder. It runs no program that the repository names, and
// fetches nothing from the network: an archive can bring a .git folder with any configuration. A filter or a hook runs
// with other commands only, and core.fsmonitor is turned off.
func Git(ctx context.Context, folder string, args ...string) *exec.Cmd {
	git := exec.CommandContext(ctx, "git", append([]string{"-c", "core.fsmonitor=false"}, args...)...)
	git.Dir = folder
	git.Env = append(os.Environ(), "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0")
	git.WaitDelay = time.Second
	return git
}
