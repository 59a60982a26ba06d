package tracker

import (
	"context"
	"os"
	"os/exec"
	"time"
)

// gitTimeout bounds a read of git's index.
const gitTimeout = 5 * time.Second

// baseOf returns a function that reads the common ancestor of a conflict from git's index, where it
// is during a merge. It is unknown without git, and after "git add".
func (f Folder) baseOf(ctx context.Context) func() (string, bool) {
	return func() (string, bool) {
		ctx, cancel := context.WithTimeout(ctx, gitTimeout)
		defer cancel()
		// cat-file runs no filter or hook of the repository and fetches nothing from the network.
		git := exec.CommandContext(ctx, "git", "cat-file", "blob", ":1:./"+fileIssues)
		git.Dir = f.path
		git.Env = append(os.Environ(), "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0")
		git.WaitDelay = time.Second
		out := &limitedBuffer{left: MaxFile}
		git.Stdout = out
		if err := git.Run(); err != nil {
			return "", false
		}
		return string(out.text), true
	}
}

// limitedBuffer collects what is written. A write beyond the limit fails.
type limitedBuffer struct {
	text []byte
	left int
}

func (l *limitedBuffer) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, errTooLarge
	}
	l.text = append(l.text, p...)
	return len(p), nil
}
