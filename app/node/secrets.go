package node

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/app/endpoint"
	"mailroom/internal/proc"
	"mailroom/internal/setting"
)

// hideSecrets hides the secrets of this process from child processes: it makes the process's memory and environment
// unreadable for them, makes them inherit none of the descriptors that it was started with, and removes variables
// from its environment. Linux shows the initial environment in /proc for the life of the process, so removing the
// variables alone is not enough.
func hideSecrets(con *command.Console, variables []string) error {
	if err := errors.Join(proc.HideSelf(), proc.HideDescriptors()); err != nil {
		return err
	}
	if con.Unsetenv == nil {
		return nil
	}
	for _, name := range variables {
		if err := con.Unsetenv(name); err != nil {
			return fmt.Errorf("remove %s from the environment: %w", name, err)
		}
	}
	return nil
}

// trustFile returns the file that says which commands of repositories agents may run in worktrees, or "" if no agent
// has worktrees. It makes the folder, because only a folder that exists is hidden from agents. Where this process
// cannot make it, no agent can, and nothing is trusted.
func trustFile(con *command.Console, c *config.Config) string {
	uses := func(a *config.Agent) bool { return a.UsesWorktrees() }
	if !slices.ContainsFunc(slices.Collect(maps.Values(c.Agents)), uses) {
		return ""
	}
	path, err := setting.TrustFile(con.Env)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err != nil {
		return ""
	}
	return path
}

// privatePaths returns paths with secrets of this process that no setting names.
func privatePaths(con *command.Console, c *config.Config) []string {
	return append(c.DatabaseFiles(con.Env), contextsFolder(con), credentials(con))
}

// credentials returns the folder with the secrets that the service manager passes to this process, or "".
// Programs of the same user could read all of them, also those that no setting names.
// https://systemd.io/CREDENTIALS/
func credentials(con *command.Console) string {
	folder := con.Env("CREDENTIALS_DIRECTORY")
	if !filepath.IsAbs(folder) {
		return ""
	}
	return folder
}

// contextsFolder returns the folder of the file of contexts, or "". The folder is hidden and not the file, because
// each change replaces the file.
func contextsFolder(con *command.Console) string {
	path, err := endpoint.ContextsFile(con.Env)
	if err == nil {
		path = filepath.Dir(path)
		_, err = os.Stat(path)
	}
	if err != nil {
		return ""
	}
	return path
}
