package exec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"mailroom"
	"mailroom/internal/proc"
)

// maxVisible is the maximum number of files of a thread that a command can read. The latest files take precedence.
const maxVisible = 500

// isolation returns the isolation of an attempt that can read the files in shown.
func (a *agent) isolation(shown []string) *proc.Isolation {
	if a.options.Isolation == nil {
		return nil
	}
	i := *a.options.Isolation
	i.Show = shown
	return &i
}

// hidesFiles reports whether the isolation hides files that messages name.
func (a *agent) hidesFiles() bool {
	i := a.options.Isolation
	if i == nil || a.options.Files == "" || i.Kind == proc.KindNone {
		return false
	}
	_, err := os.Stat(a.options.Files) // fails if no file was stored yet
	return err == nil
}

// visibleFiles returns the paths of the messages' files that are in the folder Files. The paths come from messages
// and are not trusted, so paths outside the folder are dropped.
func (a *agent) visibleFiles(messages []mailroom.Message) (paths []string, err error) {
	if !a.hidesFiles() {
		return nil, nil
	}
	for i := len(messages) - 1; i >= 0; i-- {
		for _, p := range messages[i].Parts {
			path := a.filePath(p.URI)
			if p.Type != "file" || !filepath.IsAbs(path) || filepath.Clean(path) != path || len(paths) == maxVisible {
				continue
			}
			if name, err := filepath.Rel(a.options.Files, path); err != nil || !filepath.IsLocal(name) || name == "." {
				continue
			}
			if err := a.allowRead(path); err != nil {
				return nil, err
			}
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// allowRead makes a file readable for the agent's user. The folder's own permissions still keep
// other users out; the command sees the file at a path of its own.
func (a *agent) allowRead(path string) error {
	if a.options.Isolation.User == nil {
		return nil
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil // the file stays hidden
	}
	if err == nil && info.Mode().Perm()&0o004 == 0 {
		err = os.Chmod(path, info.Mode().Perm()|0o044)
	}
	if err != nil {
		return fmt.Errorf("make a file readable for the agent's user: %w", err)
	}
	return nil
}

// visibleFiles returns the files of the whole thread, because a session remembers files of earlier
// turns.
func (t *attempt) visibleFiles(ctx context.Context) ([]string, error) {
	if !t.agent.hidesFiles() {
		return nil, nil
	}
	messages, err := t.session.Transcript(ctx, maxHistory)
	if err != nil {
		return nil, fmt.Errorf("read the transcript: %w", err)
	}
	return t.agent.visibleFiles(append(messages, t.input...))
}
