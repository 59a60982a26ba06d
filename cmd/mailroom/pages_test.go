package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// exitNote is a comment behind a command of a page that is refused.
const exitNote = "# exits with "

// pageScript returns the commands of the blocks of a page that have no language and contain none of the words in
// without. A command that does not exit with 0, or with what its comment says, ends the script.
func pageScript(page string, without ...string) string {
	var script strings.Builder
	script.WriteString("set -e\n")
	for i, part := range strings.Split(page, "\n```") {
		block, plain := strings.CutPrefix(part, "\n")
		if i%2 == 0 || !plain || strings.Contains(block, cmp.Or(without...)) {
			continue
		}
		for line := range strings.SplitSeq(block, "\n") {
			if before, code, refused := strings.Cut(line, exitNote); refused {
				line = fmt.Sprintf("got=0; %s || got=$?; test $got = %s", strings.TrimSpace(before), code[:1])
			}
			script.WriteString(line + "\n")
		}
	}
	return script.String()
}

// runPage runs the commands of a page in a shell, in a folder of its own, beside a server, and returns their output.
func (h *fixture) runPage(dir, script string) string {
	h.t.Helper()
	script = strings.ReplaceAll(script, "http://127.0.0.1:8420", h.server.url)
	cmd := exec.CommandContext(h.t.Context(), "sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "MAILROOM_DATA="+string(h.dir), "GIT_AUTHOR_NAME=ann",
		"GIT_AUTHOR_EMAIL=ann@example.org", "GIT_COMMITTER_NAME=ann", "GIT_COMMITTER_EMAIL=ann@example.org")
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("%v: %s\n%s", err, script, out)
	}
	return string(out)
}

func TestTwoAgentsShareARepositoryAsThePageSays(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "")
	h.serve()
	dir := t.TempDir()
	if err := exec.Command("git", "init", "-q", filepath.Join(dir, "roof")).Run(); err != nil {
		t.Fatal(err)
	}
	out := h.runPage(dir, pageScript(readFile(t, "../../docs/learn/share-a-repository.md"), "--thread inbox-of-bob"))
	for _, want := range []string{
		"Claimed roof-\\w+: Fix the roof\n", "Claimed roof-\\w+: Paint the door\n",
		`issues/roof-\w+ +ann `, `issues/roof-\w+ +bob `, `src/\*\* is reserved by ann until `, "src.free",
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("the commands did not print %s:\n%s", want, out)
		}
	}
}
