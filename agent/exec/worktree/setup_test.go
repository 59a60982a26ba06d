package worktree_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom/agent/exec/worktree"
	"mailroom/entry"
	"mailroom/internal/setting"
)

// setUpBy commits a set-up file of the person.
func (h *fixture) setUpBy(text string, mode os.FileMode) {
	h.t.Helper()
	h.write(worktree.SetupFile, text)
	if err := os.Chmod(filepath.Join(h.folder, worktree.SetupFile), mode); err != nil {
		h.t.Fatal(err)
	}
	h.git("add", worktree.SetupFile)
	h.git("commit", "--quiet", "--message", "set up")
}

// reads returns what a commit has in the set-up file.
func (h *fixture) reads(commit string) (*worktree.Setup, error) {
	return worktree.ReadSetup(func(args ...string) (string, error) {
		out := h.git(args...)
		if args[0] == "cat-file" {
			out += "\n" // gitIn removes it
		}
		return out, nil
	}, commit)
}

// trust trusts the set-up of a commit in a new trust file, and returns its path.
func (h *fixture) trust(commit string) string {
	h.t.Helper()
	found, err := h.reads(commit)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.trustDigest(found.Digest)
}

func (h *fixture) trustDigest(digest string) string {
	h.t.Helper()
	raw, err := json.Marshal(setting.Trust{filepath.Join(h.folder, worktree.SetupFile): {Digest: digest,
		At: time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)}})
	if err != nil {
		h.t.Fatal(err)
	}
	path := filepath.Join(h.t.TempDir(), "trust.json")
	if err := os.Chmod(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	writeFile(h.t, path, string(raw))
	return path
}

func setupOptions(trust string) worktree.SetupOptions {
	return worktree.SetupOptions{Trust: trust, Redact: func(out []byte, max int) string {
		return strings.ReplaceAll(string(out[len(out)-min(len(out), max):]), "hush", "[KEY]")
	}}
}

// reportSetUp writes a report to the file that the commands write to.
func reportSetUp(r entry.Setup) error {
	f, err := os.OpenFile(os.Getenv("KILL_TRACE"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	line := "report " + r.Command + r.Failure
	if r.Again {
		line += " again"
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}

// setUp sets a tree up and returns the reports, without times.
func (h *fixture) setUp(t *worktree.Tree, trust string) (all []entry.Setup, err error) {
	err = worktree.SetUp(h.t.Context(), t, setupOptions(trust), func(r entry.Setup) error {
		r.DurationMS = 0
		all = append(all, r)
		return nil
	})
	return all, err
}

func TestTrustedCommandsSetANewTreeUpOnce(t *testing.T) {
	h := newFixture(t)
	program := filepath.Join(t.TempDir(), "a program")
	writeFile(t, program, "#!/bin/sh\npwd\necho \"$@ $HUSH $GIT_DIR\" | tee -a \"$PWD/made\"\necho aside >&2\n")
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	h.setUpBy(fmt.Sprintf("# begins\n\n\"%s\" one 'two  three' fo\\ ur\r\n  touch build\n", program), 0o644)
	t.Setenv("HUSH", "hush")
	trust := h.trust("HEAD")
	r := h.open(func(o *worktree.Options) { o.Env = append(o.Env, "GIT_DIR=elsewhere") })
	tree := h.acquire(r, "one")
	got, err := h.setUp(tree, trust)
	if err != nil {
		t.Fatal(err)
	}
	want := []entry.Setup{
		{Number: 1, Of: 2, Command: program + " one two  three fo ur", Stderr: "aside\n",
			Stdout: tree.Path() + "\none two  three fo ur [KEY] \n"},
		{Number: 2, Of: 2, Command: "touch build"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
	h.release(tree)

	// A further run does not set it up again, also if the trust has ended. A parked tree that is made again is new.
	tree = h.acquire(r, "one")
	if got, err := h.setUp(tree, ""); err != nil || len(got) > 0 {
		t.Errorf("a further run: %v, %v", got, err)
	}
	h.commit(tree)
	h.release(tree)
	small := h.open(func(o *worktree.Options) { o.Most = 1 })
	h.release(h.acquire(small, "two"))
	if _, err := os.Stat(tree.Path()); err == nil {
		t.Fatal("the tree is not parked")
	}
	tree = h.acquire(r, "one")
	if got, err := h.setUp(tree, trust); err != nil || len(got) != 2 {
		t.Errorf("a tree that is made again: %v, %v", got, err)
	}
	h.release(tree)
	h.wantUntouched()
}

// wantUntrusted checks that a new tree is not set up, and that the error says why in one sentence.
func (h *fixture) wantUntrusted(name, why, trust string) {
	h.t.Helper()
	tree := h.acquire(h.open(), name)
	defer h.release(tree)
	got, err := h.setUp(tree, trust)
	u, ok := errors.AsType[*worktree.UntrustedError](err)
	if !ok || len(got) > 0 || !strings.Contains(u.Error(), why) || strings.ContainsAny(u.Error(), "\n\x1b") ||
		u.Commit != tree.Base() || !strings.Contains(u.Error(), "run bd trust --commit "+tree.Base()[:12]+" in") {
		h.t.Errorf("%s: %v, %v; want %q", name, got, err, why)
	}
	if _, err := os.Lstat(filepath.Join(tree.Path(), "ran")); err == nil {
		h.t.Errorf("%s: the command ran", name)
	}
}

// TestNothingOfARepositoryRunsBeforeItIsTrusted tries trust files of others, another content, and another path.
func TestNothingOfARepositoryRunsBeforeItIsTrusted(t *testing.T) {
	h := newFixture(t)
	h.setUpBy("touch ran\n", 0o644)
	trusted, open := h.trust("HEAD"), h.trust("HEAD")
	first := h.git("rev-parse", "HEAD")
	other := filepath.Join(t.TempDir(), "trust.json") // the same content in another repository
	writeFile(t, other, strings.ReplaceAll(readFile(t, trusted), "Roof of Ann", "Gutter"))
	if err := errors.Join(os.Chmod(open, 0o606), os.Chmod(filepath.Dir(other), 0o700)); err != nil {
		t.Fatal(err)
	}
	h.wantUntrusted("without a file", "start it with HOME or XDG_CONFIG_HOME", "")
	h.wantUntrusted("of another", "is not trusted", other)
	h.wantUntrusted("world-writable", "other accounts can write", open)
	h.setUpBy("touch ran\ntouch ran\n", 0o644)
	h.wantUntrusted("changed", "has changed since it was trusted on 2026-11-29", trusted)

	// The repository has the same name by another path, and the first commit is still trusted.
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(h.folder, link); err != nil {
		t.Fatal(err)
	}
	tree, err := h.open(func(o *worktree.Options) { o.Folder = link }).Acquire(t.Context(), "by a link", first)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := h.setUp(tree, trusted); err != nil || len(got) != 1 {
		t.Errorf("by a link: %v, %v", got, err)
	}
	h.release(tree)
	h.wantUntouched()
}

// TestASetUpFileThatCannotBeUsedRunsNothing gives a repository other contents, names and kinds of set-up files, which
// are trusted.
func TestASetUpFileThatCannotBeUsedRunsNothing(t *testing.T) {
	h := newFixture(t)
	for n, bad := range []struct {
		text, why string
		mode      os.FileMode
	}{
		{"touch ran && touch ran\n", `line 1 of .worktreesetup: "&" has no meaning`, 0o644},
		{"touch ran\ntouch 'ran\n", "line 2 of .worktreesetup: a quote", 0o644},
		{"#!/bin/sh\ntouch ran\n", "is not executable", 0o644}, {"touch ran\n", "does not begin with #!", 0o755},
		{"touch ran\x00\n", "is no text", 0o644}, {strings.Repeat("touch ran\n", 51), "more than 50 commands", 0o644},
		{strings.Repeat("# long\n", 10<<10), "more than 64 KiB", 0o644},
	} {
		h.setUpBy(bad.text, bad.mode)
		digest := ""
		if found, err := h.reads("HEAD"); err != nil && found != nil {
			digest = found.Digest
		}
		h.wantUntrusted(fmt.Sprint("bad ", n), bad.why, h.trustDigest(digest))
	}
	err := errors.Join(os.Remove(filepath.Join(h.folder, worktree.SetupFile)),
		os.Symlink("readme", filepath.Join(h.folder, worktree.SetupFile)))
	if err != nil {
		t.Fatal(err)
	}
	h.git("add", worktree.SetupFile)
	h.git("commit", "--quiet", "--message", "link")
	h.wantUntrusted("link", "is a link in the repository", h.trustDigest(""))
	h.git("rm", "--quiet", worktree.SetupFile)
	h.write(".WorktreeSetup", "touch ran\n")
	h.git("add", ".WorktreeSetup")
	h.git("commit", "--quiet", "--message", "another case")
	tree := h.acquire(h.open(), "another case")
	if got, err := h.setUp(tree, h.trustDigest("")); err != nil || len(got) > 0 {
		t.Errorf("another case: %v, %v", got, err)
	}
	h.release(tree)
	h.wantUntouched()
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestTheBranchOfATreeBringsNoCommands commits other commands on the branch before the tree is made again.
func TestTheBranchOfATreeBringsNoCommands(t *testing.T) {
	for _, script := range []bool{false, true} {
		h := newFixture(t)
		text, mode := "touch good\n", os.FileMode(0o644)
		if script {
			text, mode = "#!/bin/sh\ntouch good\n", 0o755
		}
		h.setUpBy(text, mode)
		h.write(".gitignore", "secret.env\nbuild/\ngood\nevil\n")
		h.git("commit", "--quiet", "--all", "--message", "ignore")
		trust := h.trust("HEAD")
		r := h.open(func(o *worktree.Options) { o.Disposable = nil })
		tree := h.acquire(r, "one")
		if _, err := h.setUp(tree, trust); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(tree.Path(), worktree.SetupFile), strings.ReplaceAll(text, "good", "evil"))
		h.commit(tree)
		if err := os.Remove(filepath.Join(tree.Path(), "good")); err != nil {
			t.Fatal(err)
		}
		h.release(tree)
		small := h.open(func(o *worktree.Options) { o.Most = 1 })
		h.release(h.acquire(small, "two"))
		tree = h.acquire(r, "one")
		_, err := h.setUp(tree, trust)
		if u, ok := errors.AsType[*worktree.UntrustedError](err); ok != script || !script && err != nil {
			t.Errorf("script %v: %v", script, err)
		} else if ok && !strings.Contains(u.Why, "differs in the worktree from its base commit") {
			t.Errorf("script %v: %v", script, err)
		}
		if _, err := os.Lstat(filepath.Join(tree.Path(), "evil")); err == nil {
			t.Errorf("script %v: the commands of the branch ran", script)
		}
		h.release(tree)
	}
}

func TestASetUpThatFailsSaysWhichCommandAndWhy(t *testing.T) {
	h := newFixture(t)
	h.setUpBy("touch first\nsh -c 'echo out; echo trouble hush >&2; test -e again || exit 7'\n", 0o644)
	trust := h.trust("HEAD")
	r := h.open()
	tree := h.acquire(r, "one")
	got, err := h.setUp(tree, trust)
	e, ok := errors.AsType[*worktree.SetupError](err)
	const want = "the set-up of worktree one failed: sh -c echo out; echo trouble hush >&2; test -e again || exit 7: " +
		"exit status 7: trouble [KEY]"
	if !ok || e.Text != want || len(got) != 2 || got[1].Failure != "exit status 7" || got[1].Stdout != "out\n" {
		t.Errorf("%+v, %v; want %q", got, err, want)
	}
	h.release(tree)
	tree = h.acquire(r, "one")
	writeFile(t, filepath.Join(tree.Path(), "again"), "")
	if got, err := h.setUp(tree, trust); err != nil || len(got) != 1 || got[0].Number != 2 || got[0].Again {
		t.Errorf("the repeat: %+v, %v; want the second command alone", got, err)
	}
	h.release(tree)

	h.setUpBy("no-such-program-here x\n", 0o644)
	tree = h.acquire(r, "two")
	if _, err := h.setUp(tree, h.trust("HEAD")); err == nil ||
		!strings.HasSuffix(err.Error(), "no-such-program-here x: the program is not installed") {
		t.Errorf("a missing program: %v", err)
	}
	h.release(tree)

	h.setUpBy("#!/bin/sh\necho \"$0\" >place\nsleep 600 &\n", 0o755)
	tree = h.acquire(r, "three")
	if _, err := h.setUp(tree, h.trust("HEAD")); err != nil {
		t.Errorf("a script: %v", err)
	}
	if place := strings.TrimSpace(readFile(t, filepath.Join(tree.Path(), "place"))); place !=
		filepath.Join(tree.Path(), worktree.SetupFile) {
		t.Errorf("the script ran at %q", place)
	}
	h.release(tree)
}

func TestATreeIsUsedWithoutItsSetUpIfThatIsSaid(t *testing.T) {
	h := newFixture(t)
	h.setUpBy("touch ran\n", 0o644)
	r := h.open()
	tree := h.acquire(r, "one")
	if err := worktree.SkipSetup(tree); err != nil {
		t.Fatal(err)
	}
	h.release(tree)
	tree = h.acquire(r, "one")
	if got, err := h.setUp(tree, h.trust("HEAD")); err != nil || len(got) > 0 {
		t.Errorf("%v, %v", got, err)
	}
	h.release(tree)
}

func TestACommentEndsACommandOfASetup(t *testing.T) {
	got, err := worktree.ParseCommands("npm ci # as a shell: it's | no $COMMAND\n\t # alone\n" +
		"echo a#b '#' \\# ''#c \"x\"\t#d\n")
	want := [][]string{{"npm", "ci"}, {"echo", "a#b", "#", "#", "#c", "x"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func FuzzSetupCommands(f *testing.F) {
	for _, text := range []string{"npm ci\n", "'a b' \"c\" d\\ e\n# no\n\n", "a|b", "\"", "\\", "a\r\nb",
		"\x1b[2Jx '\u202e'\n", "''"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := worktree.ParseCommands(text)
		if err != nil {
			wantProblem(t, err, worktree.SetupFile)
			return
		}
		var again strings.Builder
		for _, command := range all {
			if len(command) == 0 || command[0] == "" {
				t.Fatalf("%q has a command without a program", text)
			}
			for _, word := range command {
				again.WriteString(" '" + strings.ReplaceAll(word, "'", `'\''`) + "'")
			}
			again.WriteString("\n")
		}
		same, err := worktree.ParseCommands(again.String())
		if diff := cmp.Diff(all, same); err != nil || diff != "" {
			t.Errorf("%q: %v, %s", again.String(), err, diff)
		}
	})
}

// TestATreeWhoseRemovalWasCutIsSetUpAgain has a git that fails while it removes the files of a tree.
func TestATreeWhoseRemovalWasCutIsSetUpAgain(t *testing.T) {
	h := newFixture(t)
	h.setUpBy("mkdir -p made\n", 0o644)
	trust, r := h.trust("HEAD"), h.open()
	tree := h.acquire(r, "one")
	if got, err := h.setUp(tree, trust); err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	h.release(tree)
	broken := h.open(func(o *worktree.Options) {
		o.Git = h.script(`case "$*" in *"worktree remove"*) exit 1 ;; esac`)
	})
	if err := broken.Remove(t.Context(), "one", false); err == nil {
		t.Fatal("the removal ended")
	}
	tree = h.acquire(r, "one")
	if got, err := h.setUp(tree, trust); err != nil || len(got) != 1 {
		t.Errorf("after a removal that was cut: %v, %v", got, err)
	}
	h.release(tree)
	h.wantUntouched()
}
