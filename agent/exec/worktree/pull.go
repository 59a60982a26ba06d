package worktree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"mailroom/internal/proc"
)

// forge is a program that a person has signed in at a platform for pull requests.
type forge struct {
	program string
	found   []string // arguments that list the pull requests of a branch, which follows, as JSON
	field   string   // of the JSON: the address
	create  []string // arguments that open one
	branch  string   // flag of the branch when one is opened
	body    string   // flag of its text
}

// forgeOf returns the program for the platform of a remote: glab if its host is a GitLab, else gh.
func forgeOf(remote string) forge {
	host := remote
	if u, err := url.Parse(remote); err == nil && u.Host != "" {
		host = u.Host
	} else if at, _, ok := strings.Cut(remote, ":"); ok { // ann@gitlab.example.org:roof.git
		host = at
	}
	if strings.Contains(host, "gitlab") {
		return forge{program: "glab", field: "web_url", branch: "--source-branch", body: "--description",
			found:  []string{"mr", "list", "--all", "--output", "json", "--source-branch"},
			create: []string{"mr", "create", "--yes"}}
	}
	return forge{program: "gh", field: "url", branch: "--head", body: "--body",
		found:  []string{"pr", "list", "--state", "all", "--limit", "1", "--json", "url", "--head"},
		create: []string{"pr", "create"}}
}

// PullRequest opens a pull request of the pushed branch, unless there is or was one, and returns its address. A program
// of the platform does it, gh or glab, with its login. It looks before it opens one, and again if that fails: the agent
// may have opened it, or the answer to an earlier call may be lost.
func (t *Tree) PullRequest(ctx context.Context, remote, title, text string) (string, error) {
	if t.record.PullRequest != "" || t.record.Pushed == "" {
		return t.record.PullRequest, nil
	}
	address, err := t.git(ctx, command{}, "remote", "get-url", remote)
	if err != nil {
		return "", err
	}
	f := forgeOf(strings.TrimSpace(address))
	found, err := t.findPullRequest(ctx, f)
	if err == nil && found == "" {
		_, failed := t.call(ctx, f.program, slices.Concat(f.create, []string{f.branch, t.record.Branch, "--title", title,
			f.body, text})...)
		if found, err = t.findPullRequest(ctx, f); err == nil && found == "" {
			err = failed
			if err == nil {
				err = temporary("%s has opened a pull request, but does not list it yet", f.program)
			}
		}
	}
	if err != nil {
		return "", err
	}
	t.record.PullRequest = found
	return found, t.repository.write(&t.record)
}

// findPullRequest returns the address of the newest pull request of the branch, in any state, or "".
func (t *Tree) findPullRequest(ctx context.Context, f forge) (string, error) {
	out, err := t.call(ctx, f.program, append(slices.Clone(f.found), t.record.Branch)...)
	if err != nil {
		return "", err
	}
	var all []map[string]any
	if err := json.Unmarshal([]byte(out), &all); err != nil && strings.TrimSpace(out) != "" {
		return "", fmt.Errorf("read the pull requests that %s lists: %w", f.program, err)
	}
	for _, one := range all {
		if address, ok := one[f.field].(string); ok && strings.HasPrefix(address, "http") {
			return address, nil
		}
	}
	return "", nil
}

// call runs a program of a platform in the tree, with the rights of its agent, and returns its output.
func (t *Tree) call(ctx context.Context, name string, args ...string) (string, error) {
	env := append(t.repository.environment(command{tree: t.record.Path}), "GH_PROMPT_DISABLED=1",
		"GH_NO_UPDATE_NOTIFIER=1", "NO_PROMPT=1", "NO_COLOR=1")
	out, exit, err := t.repository.start(ctx, proc.Spec{Command: append([]string{name}, args...), Dir: t.record.Path,
		Env: env, Limits: proc.Limits{Total: pushTimeout, Output: 1 << 20}}, "")
	switch {
	case errors.Is(err, errNotInstalled):
		return "", permanent("%s is not installed, which opens the pull requests of this remote", name)
	case errors.Is(err, proc.ErrTotal):
		return "", temporary("%s %s did not end within %v", name, args[0], pushTimeout)
	case err != nil:
		return "", err
	case !exit.Success():
		return "", permanent("%s %s %s failed: %s", name, args[0], args[1], lastLine(string(exit.Stderr), exit))
	}
	return out, nil
}
