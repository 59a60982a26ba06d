package tracker

import (
	"context"
	"os"
	"os/exec"
	"time"
)

// gitTimeout bounds how long git may take to find a file in its index.
const gitTimeout = 5 * time.Second

// baseOf returns the file that both sides of a conflict were made from, as git's index
// has it while a merge goes on. It is not known without git, or after "git add".
func (f Folder) baseOf(ctx context.Context) func() (string, bool) {
	return func() (string, bool) {
		ctx, cancel := context.WithTimeout(ctx, gitTimeout)
		defer cancel()
		// No filter and no hook of the repository runs for cat-file, and nothing is
		// fetched from another machine.
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

// limitedBuffer keeps what is written, and fails when it is too much.
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
