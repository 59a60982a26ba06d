package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// git runs git in the place, without user settings.
func (p *place) git(args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ann", "-c", "user.email=ann@example.org"}, args...)...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (p *place) mustGit(args ...string) {
	p.t.Helper()
	if out, err := p.git(args...); err != nil {
		p.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (p *place) file() string { return filepath.Join(p.dir, ".beads", "issues.jsonl") }

// rewrite changes the file as another program might.
func (p *place) rewrite(old, new string) {
	p.t.Helper()
	raw, err := os.ReadFile(p.file())
	if err != nil {
		p.t.Fatal(err)
	}
	text := strings.Replace(string(raw), old, new, 1)
	if text == string(raw) {
		p.t.Fatalf("the file lacks %s", old)
	}
	if err := os.WriteFile(p.file(), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// rule is a rule of docs/tracker.md for two clones, of which the second is edited later.
type rule struct {
	what     string
	id       string
	member   string
	before   []string // commands; ID stands for the id
	one, two []string
	want     any // value of the member
}

func rules() []rule {
	return []rule{
		{"title: the newer", "x-title", "title", nil, []string{"update ID --title one"}, []string{"update ID --title two"}, "two"},
		{"a text: the newer", "x-text", "notes", nil, []string{"update ID --notes one"}, []string{"update ID --notes two"}, "two"},
		{"… that only the older changed", "x-notes", "notes", nil, []string{"update ID --notes one"}, []string{"update ID --title two"}, "one"},
		{"status: closed wins", "x-closed", "status", nil, []string{"close ID -r done-in-one"},
			[]string{"update ID --status in_progress"}, "closed"},
		{"… with its reason", "x-closed", "close_reason", nil, nil, nil, "done-in-one"},
		{"status, none closed: the newer", "x-status", "status", nil, []string{"update ID --status blocked"},
			[]string{"update ID --status in_progress"}, "in_progress"},
		{"priority: the more urgent", "x-urgent", "priority", nil, []string{"update ID -p 0"}, []string{"update ID -p 1"}, 0.0},
		{"labels: both", "x-labels", "labels", []string{"label add ID base"}, []string{"label add ID one"},
			[]string{"label add ID two"}, []any{"base", "one", "two"}},
		{"dependencies: both", "x-deps", "dependencies", nil, []string{"dep add ID x-title"}, []string{"dep add ID x-notes"},
			[]any{"x-notes", "x-title"}},
		{"comments: both", "x-said", "comments", nil, []string{"comments add ID one"}, []string{"comments add ID two"}, []any{"one", "two"}},
		{"deleted, and edited later: the tombstone", "x-deleted", "status", nil, []string{"delete ID --force"},
			[]string{"update ID --notes two"}, "tombstone"},
		{"created in one", "x-from-one", "title", nil, []string{"create one --id ID"}, nil, "one"},
		{"created in two", "x-from-two", "title", nil, nil, []string{"create two --id ID"}, "two"},
		{"an unknown field: the newer", "x-own", "custom", nil, []string{`rewrite one {"by":"one"}`},
			[]string{`rewrite two {"by":"two"}`}, map[string]any{"by": "two"}},
		{"… that only the older has", "x-own", "only_one", nil, nil, nil, 1.5},
	}
}

func TestConflictingClonesConverge(t *testing.T) {
	one := newPlace(t)
	made := map[string]bool{}
	for _, r := range rules() {
		if !made[r.id] && !strings.HasPrefix(r.id, "x-from-") {
			one.must("ann", "create", "base", "--id", r.id, "-p", "3")
			made[r.id] = true
		}
		one.follow(r, r.before)
	}
	one.rewrite(`"id":"x-own"`, `"id":"x-own","custom":{"by":"base"}`)
	one.mustGit("init", "-q", "-b", "main")
	one.mustGit("add", ".beads")
	one.mustGit("commit", "-qm", "begin")
	two := &place{t, filepath.Join(t.TempDir(), "two")}
	one.mustGit("clone", "-q", one.dir, two.dir)
	for _, r := range rules() {
		one.follow(r, r.one)
	}
	for _, r := range rules() {
		two.follow(r, r.two)
	}
	one.mustGit("commit", "-qam", "one")
	two.mustGit("commit", "-qam", "two")

	two.mustGit("fetch", "-q", "origin")
	if out, err := two.git("merge", "origin/main"); err == nil {
		t.Fatalf("git merge succeeded, want a conflict: %s", out)
	}
	marked, err := os.ReadFile(two.file())
	if err != nil || !strings.Contains(string(marked), "\n=======\n") {
		t.Fatalf("%v, the file has no conflict markers:\n%s", err, marked)
	}
	var listed []map[string]any
	if err := json.Unmarshal([]byte(two.must("ann", "list", "--all", "--json")), &listed); err != nil {
		t.Fatal(err)
	}
	if len(listed) != len(made)+2-1 {
		t.Errorf("%d issues listed, want those of both clones without the deleted one: %d", len(listed), len(made)+1)
	}
	two.must("ann", "sync")
	got := two.lines() // no conflict markers
	table := ""
	for _, r := range rules() {
		kept := brief(r.member, got[r.id][r.member])
		if diff := cmp.Diff(r.want, kept); diff != "" {
			t.Errorf("%s (-want +got):\n%s", r.what, diff)
		}
		table += fmt.Sprintf("\n%-42s %-13s %-28s %-36s %v", r.what, r.member, strings.Join(r.one, "; "),
			strings.Join(r.two, "; "), kept)
	}
	t.Logf("\n%-42s %-13s %-28s %-36s %s%s", "rule", "member", "one, earlier", "two, later", "kept", table)
	if aside, err := filepath.Glob(filepath.Join(two.dir, ".beads", "quarantine*")); err != nil || len(aside) > 0 {
		t.Errorf("%v, put aside: %v", err, aside)
	}
	two.mustGit("add", ".beads")
	two.mustGit("commit", "-qm", "merged")
}

// follow runs the commands of a rule.
func (p *place) follow(r rule, commands []string) {
	p.t.Helper()
	for _, c := range commands {
		words := strings.Fields(strings.ReplaceAll(c, "ID", r.id))
		if words[0] != "rewrite" {
			p.must("ann", words...)
			continue
		}
		p.rewrite(`"custom":{"by":"base"}`, `"custom":`+words[2])
		if words[1] == "one" {
			p.rewrite(`"id":"x-own"`, `"id":"x-own","only_one":1.5`)
		}
		p.must("ann", "update", r.id, "--notes", words[1]) // makes this the newer side
	}
}

// brief shortens a value for the table.
func brief(member string, v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	short := []any{}
	for _, one := range list {
		switch of := map[string]string{"dependencies": "depends_on_id", "comments": "text"}[member]; of {
		case "":
			short = append(short, one)
		default:
			short = append(short, one.(map[string]any)[of])
		}
	}
	return short
}
