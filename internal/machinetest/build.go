package machinetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// folder is the name of the environment variable with the folder of the built commands. The variable is empty if the
// test program itself serves as the commands.
const folder = "MAILROOM_TEST_COMMANDS"

// Build writes the programs of packages to path, a file or an existing folder. Packages are folders, from that of the
// tests, because the path of the module is not fixed (make module). Build builds as make does, so that the
// build cache is shared: tests with the race detector set CGO_ENABLED=1, with which much would be compiled again.
//
// It removes GOGC from the environment, see [Main].
func Build(path, tags string, packages ...string) error { return build(path, tags, "", packages) }

// BuildMarked is [Build] without tags. The linker sets variables: mark has its flags, such as "-X main.name=value".
// So nothing is compiled again.
func BuildMarked(path, mark string, packages ...string) error { return build(path, "", mark, packages) }

func build(path, tags, mark string, packages []string) error {
	if err := os.Unsetenv("GOGC"); err != nil {
		return err
	}
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w " + mark, "-tags", tags, "-o", path}
	cmd := exec.Command("go", append(args, packages...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build with the tags %q: %w\n%s", tags, err, out)
	}
	return nil
}

// Main is an M for testscript.Main. If the test program has the race detector, Main builds the commands that Path and
// Program find. Otherwise the test program itself serves as the commands, because it starts as quickly.
//
// The GOGC of make racing is for the test program alone, which has read it. Main removes it from the environment,
// because a server that starts with one does not adjust its own to its heap.
type Main struct {
	M        *testing.M
	Packages []string // folders of the main packages, relative to the folder of the tests
}

// Run runs the tests and returns their exit code.
func (m Main) Run() int {
	if !raceEnabled {
		return m.M.Run()
	}
	code := 1
	dir, err := os.MkdirTemp("", "mailroom-commands-")
	if err == nil {
		err = errors.Join(Build(dir, "", m.Packages...), os.Setenv(folder, dir))
		if err == nil {
			code = m.M.Run()
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// Path returns the value of PATH with which a process finds the commands.
func Path() string {
	if dir := os.Getenv(folder); dir != "" {
		return dir + string(os.PathListSeparator) + os.Getenv("PATH")
	}
	return os.Getenv("PATH")
}

// Program returns the path of a command.
func Program(name string) (string, error) {
	if dir := os.Getenv(folder); dir != "" {
		return filepath.Join(dir, name), nil
	}
	return exec.LookPath(name)
}
