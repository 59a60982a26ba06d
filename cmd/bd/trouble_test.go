package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// refused runs a command that must fail with exit code 1 and one line that contains want, and that
// must leave the file unchanged.
func (p *place) refused(cmd *exec.Cmd, want string) {
	p.t.Helper()
	before, err := os.ReadFile(p.file())
	if err != nil {
		p.t.Fatal(err)
	}
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err = cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 {
		p.t.Errorf("%v, want exit code 1; stdout %s, stderr %s", err, &out, &stderr)
	}
	if message := stderr.String(); !strings.HasPrefix(message, "Error: ") || strings.Count(message, "\n") != 1 ||
		!strings.Contains(message, want) {
		p.t.Errorf("stderr is %q, want one line that contains %q", message, want)
	}
	if after, err := os.ReadFile(p.file()); err != nil || !bytes.Equal(before, after) {
		p.t.Errorf("%v, the file changed from %d bytes to %d", err, len(before), len(after))
	}
	if left, err := filepath.Glob(filepath.Join(p.dir, ".beads", "*.tmp")); err != nil || len(left) > 0 {
		p.t.Errorf("%v, temporary files %v, want none", err, left)
	}
}

func TestAFullDiskLeavesTheOldFile(t *testing.T) {
	p := newPlace(t)
	p.must("ann", "create", "fills a lot", "--id", "x-1", "-d", strings.Repeat("much text ", 1000))
	// A file size limit simulates a full disk: the write fails in the middle.
	bd := p.command("ann", "update", "x-1", "--priority", "0")
	limited := exec.Command("sh", "-c", `ulimit -f 4 && exec "$0" "$@"`, bd.Path, "update", "x-1", "--priority", "0")
	limited.Dir, limited.Env = bd.Dir, bd.Env
	p.refused(limited, "file too large")
	p.must("ann", "update", "x-1", "--priority", "0") // without the limit
}

func TestAFolderThatCannotBeWritten(t *testing.T) {
	p := newPlace(t)
	p.must("ann", "create", "to be read", "--id", "x-1")
	bd := p.command("ann", "update", "x-1", "--priority", "0")
	if os.Geteuid() == 0 { // root ignores permissions
		bd.SysProcAttr = asUser(65534)
		bd.Path = p.copied(bd.Path)
	}
	beads := filepath.Join(p.dir, ".beads")
	if err := os.Chmod(beads, 0o555); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.Chmod(beads, 0o755); err != nil { // so that the cleanup succeeds
			t.Error(err)
		}
	}()
	reads := *bd
	reads.Args = []string{"bd", "list"}
	if out, err := reads.CombinedOutput(); err != nil || !strings.Contains(string(out), "to be read") {
		t.Errorf("bd list in a read-only folder: %v, %q", err, out)
	}
	p.refused(bd, "permission denied")
}

// copied returns a copy of a program that every user can execute.
func (p *place) copied(program string) string {
	p.t.Helper()
	to := filepath.Join(p.dir, "bd")
	in, err := os.Open(program)
	if err != nil {
		p.t.Fatal(err)
	}
	defer in.Close() // it is only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		p.t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		p.t.Fatal(err)
	}
	for dir := p.dir; dir != filepath.Dir(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o005 != 0o005 {
			if err := os.Chmod(dir, 0o755); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	return to
}

// A pipe that nothing writes to would block the command for good, and a device would never end. A descriptor that the
// shell has opened is the output of a command.
func TestNoNamedFileBlocksACommand(t *testing.T) {
	p := newPlace(t)
	p.must("ann", "create", "first")
	pipe := filepath.Join(p.dir, "pipe")
	if err := makePipe(pipe); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pipe, "/dev/zero"} {
		for _, args := range [][]string{
			{"import", name}, {"merge", p.file(), name, p.file(), p.file()}, {"create", "x", "--body-file", name},
		} {
			p.refused(p.command("ann", args...), "name a regular file")
		}
	}
	text := filepath.Join(p.dir, "text")
	if err := os.WriteFile(text, []byte("a text"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(text)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := p.command("ann", "create", "x", "--body-file", "/dev/fd/3")
	cmd.ExtraFiles = []*os.File{file}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
