package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// trap is a kind of file that a hostile repository can contain.
type trap struct {
	kind, text string // name, and substring of the error
	set        func(t *testing.T, at, outside string)
}

func traps() []trap {
	link := func(to string) func(*testing.T, string, string) {
		return func(t *testing.T, at, outside string) {
			t.Helper()
			check(t, os.Symlink(filepath.Join(outside, to), at))
		}
	}
	return []trap{
		{"link to a file", "is a link", link("file")},
		{"link to a missing file", "is a link", link("missing")},
		{"link to a folder", "is a link", link("folder")},
		{"pipe", "is a pipe", func(t *testing.T, at, _ string) { t.Helper(); check(t, makePipe(at)) }},
		{"folder", "is a folder", func(t *testing.T, at, _ string) { t.Helper(); check(t, os.Mkdir(at, 0o755)) }},
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// outsideOf creates a folder with a tracker and a file that no command may change.
func outsideOf(t *testing.T) string {
	t.Helper()
	outside := t.TempDir()
	check(t, os.Mkdir(filepath.Join(outside, "folder"), 0o755))
	for name, text := range map[string]string{
		"file": `{"id":"x-out","title":"from outside","status":"open","priority":2,"issue_type":"task"}` +
			"\n",
		"folder/issues.jsonl": "", "folder/own": "own",
	} {
		check(t, os.WriteFile(filepath.Join(outside, name), []byte(text), 0o600))
	}
	return outside
}

// snapshot returns the files of a folder, by name.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			found[path] = ""
			return err
		}
		raw, err := os.ReadFile(path)
		found[path] = string(raw)
		return err
	}))
	return found
}

// runHostile runs a command in a folder that may contain traps. It must exit within a timeout.
func (p *place) runHostile(args ...string) (string, error) {
	p.t.Helper()
	return p.runHostileAs("ann", args...)
}

// runHostileAs is runHostile for an actor, or one that is asked of git.
func (p *place) runHostileAs(actor string, args ...string) (string, error) {
	p.t.Helper()
	const enough = time.Minute
	ctx, cancel := context.WithTimeout(p.t.Context(), enough)
	defer cancel()
	made := p.command(actor, args...)
	cmd := exec.CommandContext(ctx, made.Path, args...)
	cmd.Dir, cmd.Env = made.Dir, append(made.Env, "AGENT_MAIL_URL=http://127.0.0.1:1", "AGENT_MAIL_TIMEOUT=1",
		"HOME="+p.t.TempDir())
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		p.t.Errorf("bd %s did not exit within %s", strings.Join(args, " "), enough)
	}
	if strings.Contains(out.String()+stderr.String(), "from outside") {
		p.t.Errorf("bd %s prints content from outside: %s%s", strings.Join(args, " "), &out, &stderr)
	}
	return stderr.String(), err
}

// hostileCommands access the files of the folder; --claim uses agent mail.
func hostileCommands() [][]string {
	return [][]string{
		{"update", "x-1", "--claim"}, {"list", "--json"}, {"rename-prefix", "y"}, {"create", "one more"}, {"prime"}, {"init"},
		{"export", "-o", ".beads/out.jsonl"},
	}
}

func TestLinksOutOfTheFolderAreRefused(t *testing.T) {
	names := []string{
		"issues.jsonl", "issues.jsonl.tmp", "quarantine.jsonl", "replaced.log", "issues.lock", "mail.json", "mail.json.tmp",
		"mail.lock",
		"config.toml", ".gitignore", "PRIME.md", "out.jsonl",
	}
	// Files that every command needs.
	needed := map[string]string{"issues.jsonl": "list", "issues.lock": "update", "quarantine.jsonl": "doctor",
		"config.toml": "rename-prefix", "out.jsonl": "export"}
	for _, name := range names {
		for _, trap := range traps() {
			t.Run(name+"/"+trap.kind, func(t *testing.T) {
				t.Parallel()
				p, outside := newPlace(t), outsideOf(t)
				p.must("ann", "create", "the first", "--id", "x-1")
				raw, err := os.ReadFile(p.file())
				check(t, err)
				check(t, os.WriteFile(p.file(), append(raw, "no issue\n"...), 0o644))
				at := filepath.Join(p.dir, ".beads", name)
				check(t, os.RemoveAll(at))
				trap.set(t, at, outside)
				before := snapshot(t, outside)
				failed := map[string]bool{}
				commands := hostileCommands()
				if name == "quarantine.jsonl" {
					commands = append(commands, []string{"doctor", "--restore"})
				}
				for _, args := range commands {
					stderr, err := p.runHostile(args...)
					failed[args[0]] = err != nil
					if err != nil && !(strings.Contains(stderr, name) && strings.Contains(stderr, trap.text)) {
						t.Errorf("bd %s: %v, want an error about %s that contains %q: %s", strings.Join(args, " "), err, name,
							trap.text, stderr)
					}
				}
				if diff := cmp.Diff(before, snapshot(t, outside)); diff != "" {
					t.Errorf("files outside changed (-before +after):\n%s", diff)
				}
				if cmd := needed[name]; cmd != "" && !failed[cmd] {
					t.Errorf("bd %s succeeded with such a file", cmd)
				}
			})
		}
	}
}

func TestAFolderThatIsALinkIsRefused(t *testing.T) {
	for _, trap := range traps() {
		t.Run(trap.kind, func(t *testing.T) {
			t.Parallel()
			p, outside := &place{t, t.TempDir()}, outsideOf(t)
			trap.set(t, filepath.Join(p.dir, ".beads"), outside)
			before := snapshot(t, outside)
			for _, args := range append([][]string{{"init"}}, hostileCommands()...) {
				stderr, err := p.runHostile(args...)
				switch {
				case trap.kind == "folder": // it is a folder
				case err == nil && args[0] != "prime":
					t.Errorf("bd %s succeeded: %s", strings.Join(args, " "), stderr)
				case trap.kind == "link to a folder" && args[0] != "prime" && !strings.Contains(stderr, "is a link"):
					t.Errorf("bd %s: %s", strings.Join(args, " "), stderr)
				}
			}
			if diff := cmp.Diff(before, snapshot(t, outside)); diff != "" {
				t.Errorf("files outside changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestFilesThatAreTooLargeAreRefused(t *testing.T) {
	p := newPlace(t)
	p.must("ann", "create", "the first", "--id", "x-1")
	for name, want := range map[string]string{"config.toml": "bytes", "issues.jsonl": "larger than 134217728 bytes"} {
		check(t, os.Truncate(filepath.Join(p.dir, ".beads", name), 1<<40)) // a sparse file
		stderr, err := p.runHostile("rename-prefix", "y")
		if err == nil || !strings.Contains(stderr, want) {
			t.Errorf("%s of 1 TiB: %v, want an error that contains %q: %s", name, err, want, stderr)
		}
		check(t, os.Truncate(filepath.Join(p.dir, ".beads", name), 0))
	}
	check(t, os.WriteFile(p.file(), bytes.Repeat([]byte("1\n"), 1<<20), 0o644))
	if stderr, err := p.runHostile("list"); err == nil || !strings.Contains(stderr, "1048576 lines") {
		t.Errorf("a million lines: %v: %s", err, stderr)
	}
}
