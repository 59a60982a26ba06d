package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheExampleOfASharedRepositoryKeepsAgentsApartAfterKills runs both agents of the example in clones of one
// repository, kills an agent that holds an issue, and the server.
func TestTheExampleOfASharedRepositoryKeepsAgentsApartAfterKills(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	copyExample(t, "shared-repository", folder)
	h := newFixture(t, "")
	h.serve()
	at := strings.TrimPrefix(h.server.url, "http://")
	token, err := h.dir.Token()
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"MAILROOM_URL=" + h.server.url, "MAILROOM_TOKEN=" + token, "AGENT_MAIL_URL=" + h.server.url,
		"AGENT_MAIL_TOKEN=" + token, "PACE=0.1", "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1"}
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = folder, append(cmd.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v: %s", name, args, err, out)
		}
		return string(out)
	}
	start := func(name string) *process {
		cmd := exec.Command("./agent.sh", name, "work/"+name)
		cmd.Dir = folder
		return h.startProcess(cmd, env...)
	}
	until := func(p *process, words string) {
		t.Helper()
		if _, err := p.until(words); err != nil {
			t.Fatalf("no %q: %v: %s", words, err, p.output.all())
		}
	}

	run("./setup.sh")
	ann, bob := start("ann"), start("bob")
	until(ann, "ann: took ")
	ann.kill()
	until(bob, "bob: finished ")
	h.server.kill()
	h.process(h.server, "--listen", at)
	ann = start("ann")
	for _, p := range []*process{ann, bob} {
		until(p, ": nothing is left")
		if err := p.wait(); err != nil {
			t.Errorf("an agent ended with %v: %s", err, p.output.all())
		}
	}

	run("git", "-C", "work/ann", "pull", "-q")
	index := readFile(t, filepath.Join(folder, "work/ann/index.md"))
	entry := regexp.MustCompile(`(?m)^- \[(.+)\]\((pages/page-\S+\.md)\), by (ann|bob)$`)
	pages := entry.FindAllStringSubmatch(index, -1)
	titles := map[string]bool{}
	for _, page := range pages {
		titles[page[1]] = true
		if got := readFile(t, filepath.Join(folder, "work/ann", page[2])); got != "# "+page[1]+"\n" {
			t.Errorf("%s has %q", page[2], got)
		}
	}
	if len(pages) != 4 || len(titles) != 4 || pages[3][1] != "What the pages have in common" ||
		strings.Count(index, "\n") != 5 {
		t.Errorf("the index is\n%s\nwant each page once, and the one that waits for the others last", index)
	}
	if out := run("sh", "-c", "cd work/ann && bd count --status closed && bd doctor"); !strings.HasPrefix(out, "4\n") {
		t.Errorf("the tracker: %s", out)
	}
	log := run("git", "-C", "work/origin.git", "log", "--format=%an", "main", "--", "index.md")
	if !strings.Contains(log, "bob") {
		t.Errorf("only one agent worked:\n%s", log)
	}
}
