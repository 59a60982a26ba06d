package tracker

import (
	"context"
	"os"
	"os/exec"
	"time"
)

// GitTimeout bounds a read of a repository.
const GitTimeout = 5 * time.Second

// Git returns a command that reads the repository of a folder. It runs no program that the repository names, and
// fetches nothing from the network: an archive can bring a .git folder with any configuration. None of the commands
// that this package runs calls a filter or a hook, and core.fsmonitor is turned off. A folder that only looks like a
// bare repository is not used as one: a cloned repository can carry one as ordinary files, with a configuration.
// Fetches of missing objects are refused by two settings, because git knows GIT_NO_LAZY_FETCH only since 2024.
//
// A configuration can also include a pipe, so the caller bounds the time by [GitTimeout].
func Git(ctx context.Context, folder string, args ...string) *exec.Cmd {
	settings := []string{"-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit"}
	git := exec.CommandContext(ctx, "git", append(settings, args...)...)
	git.Dir = folder
	git.Env = append(os.Environ(), "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none", "GIT_TERMINAL_PROMPT=0",
		"GIT_OPTIONAL_LOCKS=0")
	git.WaitDelay = time.Second
	return git
}
