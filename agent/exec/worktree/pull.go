package worktree

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"mailroom"
	"mailroom/entry"
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
	view    []string // arguments that show one as JSON; its address, or its number, follows
	number  bool
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
			create: []string{"mr", "create", "--yes"}, view: []string{"mr", "view", "--output", "json"}, number: true}
	}
	return forge{program: "gh", field: "url", branch: "--head", body: "--body",
		found:  []string{"pr", "list", "--state", "all", "--limit", "1", "--json", "url", "--head"},
		create: []string{"pr", "create"},
		view:   []string{"pr", "view", "--json", "state,mergeStateStatus,headRefName,headRefOid"}}
}

// Pulls are the pull requests of one repository at a platform. Its errors are one sentence for a person. One that is a
// [mailroom.Failure] says with its class whether a repeat may succeed, and when.
type Pulls interface {
	// Find returns the address of the pull request of a branch of the repository, in any state, or "".
	Find(ctx context.Context, branch string) (address string, err error)
	// Open opens a pull request of a branch that has none, for the default branch, and returns its address, or "" if
	// the platform does not say it. After an error it may have been opened all the same.
	Open(ctx context.Context, branch, title, text string) (address string, err error)
	// Look returns what the platform says now of the pull request of a branch with this address. tag is the tag of the
	// last answer, or "".
	Look(ctx context.Context, branch, address, tag string) (PullAnswer, error)
}

// PullAnswer is what a platform says of a pull request: one of the states [entry.PullOpen] and so on, and in a few
// words what keeps it from a merge, if the platform says so. Head is its newest commit, "" if the platform does not say
// it. Same is set, and nothing else, if the answer with the tag of the call still holds.
type PullAnswer struct {
	State, Head, Trouble, Tag string
	Same                      bool
}

// PullRequest opens a pull request of the pushed branch, unless there is or was one, and returns its address. It looks
// before it opens one, and again if that fails: the agent may have opened it, or the answer to an earlier call may be
// lost. [Options.Pulls] does it, or a program of the platform with its login, gh or glab.
func (t *Tree) PullRequest(ctx context.Context, remote, title, text string) (string, error) {
	if t.record.PullRequest != "" || t.record.Pushed == "" {
		return t.record.PullRequest, nil
	}
	address, err := t.git(ctx, command{}, "remote", "get-url", remote)
	if err != nil {
		return "", err
	}
	found, err := findOrOpen(ctx, t.pulls(strings.TrimSpace(address)), t.record.Branch, title, text)
	if err != nil {
		return "", err
	}
	t.record.PullRequest = found
	return found, t.repository.write(&t.record)
}

// findOrOpen returns the address of the pull request of a branch, after a look. It opens a missing one.
func findOrOpen(ctx context.Context, pulls Pulls, branch, title, text string) (string, error) {
	found, err := pulls.Find(ctx, branch)
	if err == nil && found == "" {
		found, err = open(ctx, pulls, branch, title, text)
	}
	return found, err
}

// PullText returns an error of [Pulls] as one sentence, without its class.
func PullText(err error) string {
	if f, ok := errors.AsType[*mailroom.Failure](err); ok {
		err = f.Err
	}
	return err.Error()
}

// pulls returns the pull requests of the repository with the address of a remote.
func (t *Tree) pulls(address string) Pulls {
	if of := t.repository.options.Pulls; of != nil {
		if pulls := of(address); pulls != nil {
			return pulls
		}
	}
	return program{t, forgeOf(address)}
}

// open opens a pull request and returns its address. If the platform does not say it, the pull request is looked up.
func open(ctx context.Context, pulls Pulls, branch, title, text string) (string, error) {
	found, failed := pulls.Open(ctx, branch, title, text)
	if found != "" && failed == nil {
		return found, nil
	}
	found, err := pulls.Find(ctx, branch)
	if err == nil && found != "" {
		return found, nil
	}
	if err = cmp.Or(failed, err); err == nil {
		err = unavailable(temporary("the pull request was opened, but the platform does not list it yet"))
	}
	return "", err
}

// program is the [Pulls] of a program that works in a tree.
type program struct {
	tree *Tree
	forge
}

func (p program) Find(ctx context.Context, branch string) (string, error) {
	out, err := p.tree.call(ctx, p.program, append(slices.Clone(p.found), branch)...)
	if err != nil {
		return "", err
	}
	var all []map[string]any
	if err := json.Unmarshal([]byte(out), &all); err != nil && strings.TrimSpace(out) != "" {
		return "", fmt.Errorf("read the pull requests that %s lists: %w", p.program, err)
	}
	for _, one := range all {
		if address, ok := one[p.field].(string); ok && strings.HasPrefix(address, "http") {
			return address, nil
		}
	}
	return "", nil
}

func (p program) Open(ctx context.Context, branch, title, text string) (string, error) {
	_, err := p.tree.call(ctx, p.program, slices.Concat(p.create, []string{p.branch, branch, "--title", title,
		p.body, text})...)
	return "", err
}

// Look understands the JSON of gh, and of glab, which prints what the API of GitLab says.
// https://docs.gitlab.com/api/merge_requests/#get-single-mr
func (p program) Look(ctx context.Context, branch, address, _ string) (a PullAnswer, err error) {
	if p.number {
		address = address[strings.LastIndexByte(address, '/')+1:]
	}
	out, err := p.tree.call(ctx, p.program, append(slices.Clone(p.view), address)...)
	if err != nil {
		return a, err
	}
	var one struct {
		State, MergeStateStatus, HeadRefName, HeadRefOid, SHA string
		Source                                                string `json:"source_branch"`
		Conflicts                                             bool   `json:"has_conflicts"`
	}
	if err := json.Unmarshal([]byte(out), &one); err != nil {
		return a, fmt.Errorf("read the pull request that %s shows: %w", p.program, err)
	}
	if cmp.Or(one.HeadRefName, one.Source) != branch {
		return a, permanent("%s shows the pull request of another branch", p.program)
	}
	a.Head = cmp.Or(one.HeadRefOid, one.SHA)
	switch strings.ToLower(one.State) {
	case "open", "opened", "locked":
		a.State = entry.PullOpen
	case "merged":
		a.State = entry.PullMerged
		return a, nil
	case "closed":
		a.State = entry.PullClosed
		return a, nil
	default:
		return a, permanent("%s shows the unknown state %q", p.program, one.State)
	}
	a.Trouble = PullTrouble(one.MergeStateStatus)
	if one.Conflicts {
		a.Trouble = PullTrouble("dirty")
	}
	return a, nil
}

// PullTrouble returns what a merge status of GitHub means for a person, "" for one that is no trouble or says too
// little.
// https://docs.github.com/en/graphql/reference/enums#mergestatestatus
func PullTrouble(status string) string {
	switch strings.ToLower(status) {
	case "dirty":
		return "it conflicts with its base"
	case "unstable":
		return "its checks have not passed"
	}
	return ""
}

// call runs a program of a platform in the tree, with the rights of its agent, and returns its output.
func (t *Tree) call(ctx context.Context, name string, args ...string) (string, error) {
	folder := t.record.Path
	if _, err := os.Stat(folder); err != nil { // it is parked; each folder of the repository will do
		folder = t.repository.folder()
	}
	env := append(t.repository.environment(command{tree: t.record.Path}), "GH_PROMPT_DISABLED=1",
		"GH_NO_UPDATE_NOTIFIER=1", "NO_PROMPT=1", "NO_COLOR=1")
	out, exit, err := t.repository.start(ctx, proc.Spec{Command: append([]string{name}, args...), Dir: folder,
		Env: env, Limits: proc.Limits{Total: pushTimeout, Output: 1 << 20}}, "")
	switch {
	case errors.Is(err, errNotInstalled):
		return "", permanent("%s is not installed, which opens the pull requests of this remote; install it, or set "+
			"pull_token_file of the agent if the remote is at GitHub", name)
	case errors.Is(err, proc.ErrTotal):
		return "", unavailable(temporary("%s %s did not end within %v", name, args[0], pushTimeout))
	case err != nil:
		return "", err
	case !exit.Success():
		text := lastLine(string(exit.Stderr), exit)
		if isFinal(text) {
			return "", permanent("%s %s %s failed: %s", name, args[0], args[1], text)
		}
		return "", unavailable(temporary("%s %s %s failed: %s", name, args[0], args[1], text))
	}
	return out, nil
}

func unavailable(err error) error {
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: err}
}

// isFinal reports whether a repeat of a call of gh or glab fails in the same way: the platform has understood it, or no
// person is signed in. Their exit status says less than their texts: 4 is a missing login of gh, and all others are 1.
// https://cli.github.com/manual/gh_help_exit-codes
func isFinal(text string) bool {
	lower := strings.ToLower(text)
	has := func(some ...string) bool {
		return slices.ContainsFunc(some, func(s string) bool { return strings.Contains(lower, s) })
	}
	if has("rate limit", "abuse detection", "something went wrong", "timeout", "timed out", "http 5", "http 429") {
		return false
	}
	return has("http 4", "graphql:", "auth login", "not logged", "permission", "unknown flag", "unknown command",
		"no git remotes", "none of the git remotes", "no commits between")
}
