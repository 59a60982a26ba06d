package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
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

// TestTheTourOfTheFirstPageRunsAsItStands types the commands of README, presses Ctrl-C where it says so, and starts the
// server again after its kill.
func TestTheTourOfTheFirstPageRunsAsItStands(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "")
	p := &process{}
	h.process(p)
	address := strings.TrimPrefix(p.url, "http://")
	_, tour, _ := strings.Cut(readFile(t, "../../README.md"), "these in another:\n\n```\n")
	tour, _, _ = strings.Cut(tour, "\n```")
	want := []string{ // in the output of each command
		"hello mailbox\n", "1 2 3", "", " 299 300\n", "  mailroom approve ", "approved", "postcard no. 1", "/#sign-in=",
		"server stopped",
	}
	lines := strings.Split(tour, "\n")
	if len(lines) != len(want) {
		t.Fatalf("the tour has %d commands, want %d:\n%s", len(lines), len(want), tour)
	}
	for i, line := range lines {
		if strings.HasPrefix(line, "kill -9 ") {
			p.kill()
			h.process(p, "--listen", address)
			continue
		}
		out := &screen{press: strings.Contains(line, "press Ctrl-C")}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "exec "+strings.Replace(line, "bin/", "", 1))
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "MAILROOM_DATA="+string(h.dir), "BROWSER=true")
		cmd.Stdout, cmd.Stderr, out.cmd = out, out, cmd
		err := cmd.Run()
		code := 0
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			code = exit.ExitCode()
		}
		expected := 0
		switch {
		case out.press:
			expected = exitInterrupted
		case strings.Contains(line, "exits with 3"):
			expected = exitWaiting
		}
		if got := out.text.String(); code != expected || !strings.Contains(got, want[i]) {
			t.Fatalf("%s\nexit code %d, want %d and %q:\n%s", line, code, expected, want[i], got)
		}
	}
}

// screen is both outputs of a command, which one goroutine writes. It presses Ctrl-C after the first words, if press is
// set.
type screen struct {
	text  strings.Builder
	cmd   *exec.Cmd
	press bool
	done  bool
}

func (s *screen) Write(b []byte) (int, error) {
	s.text.Write(b)
	if s.press && !s.done && strings.Contains(s.text.String(), "1 2 3") {
		s.done = true
		return len(b), s.cmd.Process.Signal(os.Interrupt)
	}
	return len(b), nil
}

func TestTheSettingsOfThePagesAreAccepted(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md", "../../examples/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	blocks := regexp.MustCompile("(?ms)^```toml[^\n]*\n(.*?)^```")
	checked := 0
	for _, page := range pages {
		for _, block := range blocks.FindAllStringSubmatch(readFile(t, page), -1) {
			checked++
			h := newFixture(t, "")
			h.configure(block[1])
			if code, stderr := h.run(t.Context(), io.Discard, "config"); code != exitDone {
				t.Errorf("%s: exit code %d: %s\n%s", page, code, stderr, block[1])
			}
		}
	}
	if checked < 20 {
		t.Errorf("the pages have %d blocks of settings, fewer than they had", checked)
	}
}

// TestTheCommandThatKeepsASessionCounts runs the command of the page about agents, twice in a thread, once in another.
func TestTheCommandThatKeepsASessionCounts(t *testing.T) {
	t.Parallel()
	_, program, _ := strings.Cut(readFile(t, "../../docs/learn/write-an-agent.md"), "\n# count.py")
	_, program, _ = strings.Cut(program, "\n")
	program, _, _ = strings.Cut(program, "```")
	file := filepath.Join(t.TempDir(), "count.py")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	const settings = "[agents.count]\nkind = \"exec\"\ncommand = [\"python3\", %q]\nenv = { HOME = %q }\n"
	h := newFixture(t, fmt.Sprintf(settings, file, t.TempDir()))
	h.serve()
	for i, thread := range []string{"a", "a", "b"} {
		var out strings.Builder
		code, stderr := h.run(t.Context(), &out, "send", "--agent", "count", "--thread", thread, "hello")
		if want := fmt.Sprintf("message %d of this thread\n", []int{1, 2, 1}[i]); code != exitDone || out.String() != want {
			t.Errorf("send to %s: exit code %d, %q, want %q: %s", thread, code, out.String(), want, stderr)
		}
	}
}
