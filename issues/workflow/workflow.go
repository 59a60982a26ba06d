// Package workflow reads WORKFLOW.md, the file in which a repository describes the work of agents for Symphony: YAML
// between two lines of hyphens, then a template in Liquid, the prompt of each issue. The file belongs to the
// authors of the repository and is not trusted: it is bounded, reads no other file and no variable of the environment
// that the operator does not list, and nothing here runs its commands.
package workflow

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"mailroom"
)

// maxFile is the maximum size of a file, in bytes.
const maxFile = 512 << 10

// Workflow is what a file says, with the defaults of Symphony for what it leaves out.
type Workflow struct {
	Kind           string // of the tracker: linear, github, …; "" if the file names none
	Endpoint       string // base URL of the tracker's API; "" is its usual one
	Project        string // Linear: the slug of the project
	Repository     string // GitHub: owner/name
	APIKey         string // secret
	RequiredLabels []string
	ActiveStates   []string
	TerminalStates []string

	Interval  time.Duration // between two looks at the tracker
	MaxAgents int           // issues at work at once
	Root      string        // folder of the workspaces

	Hooks       map[string]string // shell commands by event, which nothing here runs
	HookTimeout time.Duration

	Settings []Setting // what the file sets, in its order
	Notes    []string  // what has no effect here, and why

	body *template
}

// Setting is one key of the front matter with its value.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`          // as text; secrets and commands are described instead
	Here  string `json:"here,omitempty"` // the setting of this server that it stands for
}

// Issue is the issue of a prompt.
type Issue struct {
	ID, NativeRef, Identifier, Title, Description, State, BranchName, URL, Assignee string
	Priority                                                                        int // 1 to 4; 0 if unknown
	Labels                                                                          []string
	BlockedBy                                                                       []Blocker
	CreatedAt, UpdatedAt                                                            time.Time
	Dispatchable                                                                    bool
}

// Blocker is an issue that another one waits for.
type Blocker struct{ ID, Identifier, State string }

// environment returns the value of a variable that the operator lists for the file, and whether it is listed.
type environment func(name string) (value string, listed bool)

// listed returns an environment for these names, whose values get returns.
func listed(names []string, get func(string) string) environment {
	return func(name string) (string, bool) {
		for _, listed := range names {
			if name == listed {
				return get(name), true
			}
		}
		return "", false
	}
}

// parse reads a file. An unknown key is a note. A value of the wrong type, a variable that env does not list, and an
// unknown variable, filter or tag of the body are errors with code [mailroom.CodeInvalid].
func parse(file []byte, env environment) (*Workflow, error) {
	w, err := parseFile(file, env)
	if err != nil {
		return nil, mailroom.Errorf(mailroom.CodeInvalid, "%v", err)
	}
	return w, nil
}

func parseFile(file []byte, env environment) (*Workflow, error) {
	if len(file) > maxFile {
		return nil, fmt.Errorf("the file has %d bytes, more than the limit of %d", len(file), maxFile)
	}
	front, body, line, err := split(file)
	if err != nil {
		return nil, err
	}
	r := &reader{env: env, w: defaults()}
	if err := r.read(front); err != nil {
		return nil, err
	}
	if r.w.body, err = parseTemplate(strings.TrimSpace(body), line, issueFields()); err != nil {
		return nil, err
	}
	return r.w, nil
}

// split returns the front matter, the body, and the number of the body's first line that is not empty.
func split(file []byte) (front []byte, body string, line int, err error) {
	file = bytes.TrimPrefix(file, []byte("\ufeff"))
	file = bytes.ReplaceAll(file, []byte("\r\n"), []byte("\n"))
	first := func(text []byte, at int) int {
		return at + bytes.Count(text[:len(text)-len(bytes.TrimLeft(text, " \t\n"))], []byte("\n"))
	}
	rest, has := bytes.CutPrefix(file, []byte("---\n"))
	if !has {
		return nil, string(file), first(file, 1), nil
	}
	before, after, closed := bytes.Cut(append([]byte("\n"), rest...), []byte("\n---\n"))
	if !closed {
		before, closed = bytes.CutSuffix(append([]byte("\n"), rest...), []byte("\n---"))
		after = nil
	}
	if !closed {
		return nil, "", 0, errors.New("line 1: the front matter has no end; write --- on a line of its own after it")
	}
	const marks = 2
	return before, string(after), first(after, bytes.Count(before, []byte("\n"))+marks+1), nil
}

func defaults() *Workflow {
	return &Workflow{
		ActiveStates:   []string{"Todo", "In Progress"},
		TerminalStates: []string{"Closed", "Cancelled", "Canceled", "Duplicate", "Done"},
		Interval:       30 * time.Second, MaxAgents: 10, HookTimeout: time.Minute, Hooks: map[string]string{},
	}
}

// issueFields names the fields of issue in a template.
func issueFields() []string {
	return []string{"id", "native_ref", "identifier", "title", "description", "priority", "state", "branch_name", "url",
		"assignee_id", "labels", "blocked_by", "dispatchable", "created_at", "updated_at"}
}

// Prompt renders the body for an issue. attempt is 0 for the first run, and otherwise the number of the retry. A file
// without a body has the prompt "".
func (w *Workflow) Prompt(it Issue, attempt int) (string, error) {
	text := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	at := func(t time.Time) any {
		if t.IsZero() {
			return nil
		}
		return t.UTC().Format(time.RFC3339)
	}
	labels, blockers := []any{}, []any{}
	for _, l := range it.Labels {
		labels = append(labels, strings.ToLower(l))
	}
	for _, b := range it.BlockedBy {
		blockers = append(blockers, map[string]any{"id": text(b.ID), "identifier": text(b.Identifier),
			"state": text(b.State)})
	}
	number := func(n int) any {
		if n == 0 {
			return nil
		}
		return n
	}
	out, err := w.body.render(map[string]any{
		"attempt": number(attempt),
		"issue": map[string]any{"id": it.ID, "native_ref": text(it.NativeRef), "identifier": it.Identifier,
			"title": it.Title, "description": text(it.Description), "priority": number(it.Priority), "state": it.State,
			"branch_name": text(it.BranchName), "url": text(it.URL), "assignee_id": text(it.Assignee), "labels": labels,
			"blocked_by": blockers, "dispatchable": it.Dispatchable, "created_at": at(it.CreatedAt),
			"updated_at": at(it.UpdatedAt)},
	})
	if err != nil {
		return "", mailroom.Errorf(mailroom.CodeInvalid, "the template of the workflow: %v", err)
	}
	return strings.TrimSpace(out), nil
}
