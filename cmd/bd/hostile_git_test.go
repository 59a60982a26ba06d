package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoCommandRunsWhatARepositoryConfigures has repositories whose configuration names a program wherever git can run
// one: a .git folder that an archive brought, and a .beads folder that is a bare repository of ordinary files. No
// command runs it, and none waits for a pipe that the configuration includes.
func TestNoCommandRunsWhatARepositoryConfigures(t *testing.T) {
	for _, kind := range []string{".git", ".beads", "pipe"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := &place{t, t.TempDir()}
			outside := t.TempDir()
			ran, program := filepath.Join(outside, "ran"), filepath.Join(outside, "program")
			check(t, os.WriteFile(program, []byte("#!/bin/sh\necho \"$0 $*\" >>"+ran+"\nexit 1\n"), 0o755))
			git := func(args ...string) {
				t.Helper()
				cmd := exec.Command("git", args...)
				cmd.Dir = p.dir
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("git %v: %v: %s", args, err, out)
				}
			}
			check(t, os.Mkdir(filepath.Join(p.dir, ".beads"), 0o755))
			line := `{"id":"x-1","title":"TITLE","status":"open","priority":2,"issue_type":"task","created_at":"2026-01-02T03:04:05.1Z","updated_at":"2026-01-03T03:04:05Z"}` + "\n"
			check(t, os.WriteFile(p.file(), []byte(line), 0o644))
			repository := ".git"
			if kind == ".beads" {
				repository = ".beads"
				git("init", "-q", "--bare", ".beads")
			} else {
				git("init", "-q")
			}
			within := []string{"--git-dir=" + repository, "--work-tree=."}
			git(append(within, "-c", "core.bare=false", "add", "-f", ".beads/issues.jsonl")...)
			git(append(within, "-c", "core.bare=false", "-c", "core.fsmonitor="+program, "update-index", "--fsmonitor")...)
			check(t, os.RemoveAll(ran))
			config := filepath.Join(p.dir, repository, "config")
			if kind == "pipe" {
				check(t, makePipe(filepath.Join(outside, "pipe")))
				check(t, os.WriteFile(config, []byte("[include]\n\tpath = "+filepath.Join(outside, "pipe")+"\n"), 0o644))
			} else {
				check(t, os.WriteFile(config, []byte(programEverywhere(p.dir, program)), 0o644))
				check(t, os.WriteFile(filepath.Join(p.dir, ".gitattributes"), []byte("* filter=x diff=x merge=x\n"), 0o644))
				missing := strings.Repeat("1", 40) + "\n" // objects that a partial clone would fetch
				check(t, os.WriteFile(filepath.Join(p.dir, repository, "HEAD"), []byte(missing), 0o644))
				check(t, os.WriteFile(filepath.Join(p.dir, repository, "MERGE_HEAD"), []byte(missing), 0o644))
			}
			other := filepath.Join(outside, "tracker")
			check(t, os.Mkdir(other, 0o755))
			check(t, os.WriteFile(filepath.Join(other, "issues.jsonl"), nil, 0o644))
			// so that the base is asked for
			twice := strings.Replace(line, "TITLE", "one", 1) + strings.Replace(line, "TITLE", "two", 1)
			commands := append(hostileCommands(), []string{"doctor"}, []string{"sync"}, []string{"list"},
				[]string{"close", "x-1"})
			if kind == "pipe" { // each waits for it until its limit
				commands = [][]string{{"create", "one more"}}
			}
			for _, args := range commands {
				check(t, os.WriteFile(p.file(), []byte(twice), 0o644))
				p.runUnnamed(args...)
			}
			if kind != "pipe" {
				check(t, os.WriteFile(filepath.Join(p.dir, ".beads", "redirect"), []byte(other), 0o644))
				p.runUnnamed("list")
			}
			if raw, err := os.ReadFile(ran); err == nil {
				t.Errorf("the repository's program ran:\n%s", raw)
			}
		})
	}
}

// runUnnamed runs a command whose actor is asked of git. Its failure is no matter: it must end, and run nothing.
func (p *place) runUnnamed(args ...string) {
	p.t.Helper()
	_, _ = p.runHostileAs("", args...) // see above
}

// programEverywhere returns a configuration of git that names a program wherever one can be named.
func programEverywhere(worktree, program string) string {
	settings := "[core]\n\tbare = false\n\tworktree = " + worktree +
		"\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = origin\n"
	for section, names := range map[string]string{
		"core": "fsmonitor pager editor sshCommand askPass alternateRefsCommand gitProxy", "credential": "helper",
		"diff": "external", "sequence": "editor",
		`filter "x"`: "clean smudge process", `diff "x"`: "command textconv", `merge "x"`: "driver", "gpg": "program",
		"alias": "config cat-file ls-files merge-base",
	} {
		settings += "[" + section + "]\n"
		for _, name := range strings.Fields(names) {
			settings += fmt.Sprintf("\t%s = %s\n", name, program)
		}
	}
	settings += "[core]\n\thooksPath = " + filepath.Dir(program) + "\n[remote \"origin\"]\n\turl = ext::" + program +
		" x\n\tpromisor = true\n\tuploadpack = " + program + "\n[protocol]\n\tallow = always\n"
	return settings
}
