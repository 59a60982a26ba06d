package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mailroom/internal/machinetest"
)

func TestAModulePathThatOthersCannotImportIsRefused(t *testing.T) {
	for p, want := range map[string]string{
		"example.org/mailroom": "", "example.org": "", "a.b/c/d-e_f.g~h": "", "example.org/v2x": "", "x.local/v2/x": "",
		"":                        "set PATH to the path of the module",
		"mailroom":                "does not begin with a host name",
		"mailroom/x.y":            "does not begin with a host name",
		"Example.org/mailroom":    "does not begin with a host name",
		"-x.org/mailroom":         "does not begin with a host name",
		"example.org/mailroom/":   "is not a path of a module",
		"example.org//mailroom":   "is not a path of a module",
		"example.org/../mailroom": "is not a path of a module",
		"example.org/mail room":   "is not a path of a module",
		"https://example.org/x":   "is not a path of a module",
		"example.org/x@v1.0.0":    "is not a path of a module",
		"example.org/mailroom/v2": "ends with a major version",
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "go.mod"), "module mailroom\n")
		err := moveModule(io.Discard, dir, p)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", p, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%q: %v, want one sentence with %q", p, err, want)
		case want != "" && read(t, filepath.Join(dir, "go.mod")) != "module mailroom\n":
			t.Errorf("%q: go.mod was changed", p)
		}
	}
}

func TestOnlyWhatNamesTheModuleMoves(t *testing.T) {
	const (
		code = "package x\n\nimport (\n\t\"fmt\"\n\n\t\"github.com/mailroom/mailroom\"\n\n\t\"mailroom\"\n" +
			"\tremote \"mailroom/worker\"\n)\n\n" +
			"// import \"mailroom/bus\"\nconst at = \"mailroom/bus\"\n"
		mod = "module mailroom/bench // mailroom\n\nrequire (\n\tmailroom v0.0.0\n" +
			"\tgithub.com/mailroom/mailroom v1.0.0\n)\n\nreplace mailroom => ../mailroom\n"
		page = "Import `mailroom/worker`.\n\n```go\n" + code + "```\n\n```js\n" +
			"import { work } from 'mailroom/worker';\n```\n\n```\ngo mod edit -replace=mailroom=/path/mailroom\n" +
			"go get mailroom/worker\nmailroom serve\n```\n"
	)
	moveText := func(text, to string) string {
		named := strings.NewReplacer("\t\"mailroom\"", "\t\""+to+"\"", "remote \"mailroom", "remote \""+to,
			"-replace=mailroom=", "-replace="+to+"=", "go get mailroom", "go get "+to, "module mailroom/", "module "+to+"/",
			"\tmailroom v", "\t"+to+" v", "replace mailroom =>", "replace "+to+" =>").Replace(text)
		if !strings.HasSuffix(to, "/mailroom") {
			named = strings.ReplaceAll(named, "\t\""+to+"\"", "\tmailroom \""+to+"\"")
		}
		return named
	}
	dir := t.TempDir()
	files := map[string]string{"go.mod": "module mailroom\n", "x.go": code, "bench/go.mod": mod, "docs/x.md": page,
		"node_modules/x/x.go": code, "x.js": "import 'mailroom/worker';\n"}
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	for _, to := range []string{"example.org/mailroom", "example.org/a.b", "example.org/a.b/c", "example.org/mailroom"} {
		for range 2 { // the second time nothing is left to do
			if err := moveModule(io.Discard, dir, to); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"go.mod": "module " + to + "\n", "x.go": moveText(code, to),
				"bench/go.mod": moveText(mod, to), "docs/x.md": moveText(page, to),
				"node_modules/x/x.go": code, "x.js": files["x.js"]} {
				if got := read(t, filepath.Join(dir, name)); got != text {
					t.Errorf("%s: %s is\n%s\nwant\n%s", to, name, got, text)
				}
			}
		}
	}
	write(t, filepath.Join(dir, "y.go"), "package y\nimport (")
	if err := moveModule(io.Discard, dir, "example.org/other"); err == nil || !strings.Contains(err.Error(), "y.go") {
		t.Errorf("a file that cannot be read: %v", err)
	}
	if got := read(t, filepath.Join(dir, "go.mod")); got != "module example.org/mailroom\n" {
		t.Errorf("go.mod was changed though a file cannot be read: %s", got)
	}
}

// TestAProgramOutsideServesAgents follows two pages as a user would: it copies the first program into an
// empty folder, runs the commands below it, starts the program beside a real server, and sends it a message. It does so
// with this tree, and with a copy whose module has another path.
func TestAProgramOutsideServesAgents(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	moved := copyTree(t, root)
	var out bytes.Buffer
	if err := moveModule(&out, moved, "example.org/mailroom"); err != nil {
		t.Fatal(err)
	}
	if err := moveModule(&out, moved, "example.org/mailroom"); err != nil ||
		!strings.HasSuffix(out.String(), "the module is example.org/mailroom; 0 files changed\n") {
		t.Errorf("moved twice: %v: %s", err, out.String())
	}
	// go list finds an import of a package that is not there, also of the tests.
	command(t, moved, "go", "list", "-deps", "-test", "./...")
	for _, inside := range []string{"channel/slack/slackgo", "server/openapi", "store/sqlite/powercut", "bench/peers",
		"examples/webhook-pipeline"} {
		command(t, filepath.Join(moved, inside), "go", "list", ".")
	}
	command(t, moved, "go", "test", "-run", "Rules|Forbidden|Picture|Worker|Links", "./internal/archtest")

	s := startServer(t)
	for name, of := range map[string]string{"docs/learn/write-an-agent.md": root, "docs/go.md": moved} {
		t.Run(name, func(t *testing.T) {
			dir, page := t.TempDir(), read(t, filepath.Join(of, name))
			for i, code := range programs(t, page) {
				write(t, filepath.Join(dir, "main.go"), code)
				if i == 0 {
					for _, line := range commands(t, page) {
						command(t, dir, strings.Fields(strings.ReplaceAll(line, "/path/to/mailroom", of))...)
					}
					s.serves(t, filepath.Join(dir, "shout"))
				}
				command(t, dir, "go", "vet", ".")
			}
		})
	}
}

// copyTree copies the files of a tree that git has or would add.
func copyTree(t *testing.T, root string) string {
	t.Helper()
	list := command(t, root, "git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others",
		"--exclude-standard")
	to := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		if text, err := os.ReadFile(filepath.Join(root, name)); err == nil { // else it was removed
			write(t, filepath.Join(to, name), string(text))
		}
	}
	return to
}

// programs returns the Go programs of a page.
func programs(t *testing.T, page string) (all []string) {
	t.Helper()
	for i, part := range strings.Split(page, "\n```") {
		language, code, _ := strings.Cut(part, "\n")
		if i%2 == 1 && strings.HasPrefix(language, "go") && strings.HasPrefix(code, "package main\n") {
			all = append(all, code+"\n")
		}
	}
	if len(all) == 0 {
		t.Fatal("the page has no program")
	}
	return all
}

// commands returns the commands of a page that build its first program.
func commands(t *testing.T, page string) []string {
	t.Helper()
	_, found, ok := strings.Cut(page, "\ngo mod init ")
	found, _, closed := strings.Cut(found, "\n```")
	if !ok || !closed {
		t.Fatal("the page has no commands")
	}
	return strings.Split(strings.TrimSuffix("go mod init "+found, "\n./shout"), "\n")
}

// command runs a command in a folder, without the network, and returns its output.
func command(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	flags := "GOFLAGS=" + os.Getenv("GOFLAGS") + " -trimpath -buildvcs=false" // so that nothing is compiled again
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", flags, "GOWORK=off", "GOSUMDB=off", "GOPROXY=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q in %s: %v\n%s%s", args, dir, err, out, stderr.String())
	}
	return string(out)
}

// server is a real server, with its own data folder.
type server struct {
	binary, data, url string
}

func startServer(t *testing.T) *server {
	t.Helper()
	dir := t.TempDir()
	s := &server{binary: filepath.Join(dir, "mailroom"), data: filepath.Join(dir, "data")}
	if err := machinetest.Build(s.binary, "", "../../cmd/mailroom"); err != nil {
		t.Fatal(err)
	}
	line := start(t, "listening on ", s.binary, "serve", "--data", s.data, "--listen", "127.0.0.1:0")
	_, line, _ = strings.Cut(line, "listening on ")
	s.url, _, _ = strings.Cut(line, ",")
	return s
}

// serves runs a worker for the agent shout, and sends it a message.
func (s *server) serves(t *testing.T, program string) {
	t.Helper()
	token := strings.TrimSpace(command(t, ".", s.binary, "token", "create", filepath.Base(t.Name()), "--scope", "work",
		"--data", s.data))
	t.Setenv("MAILROOM_URL", s.url)
	t.Setenv("MAILROOM_TOKEN", token)
	start(t, "worker serves agents", program)
	got := command(t, ".", s.binary, "send", "--data", s.data, "--agent", "shout", "hello world")
	if strings.TrimSpace(got) != "HELLO WORLD" {
		t.Errorf("the worker replies %q", got)
	}
}

// start starts a program, waits for a line of its standard error, and returns it. At the end of the test the program
// has to end well at SIGTERM.
func start(t *testing.T, want string, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found, printed := make(chan string, 1), make(chan string, 1)
	go func() { // ends with the program; the cleanup waits for it
		var all strings.Builder
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			if all.WriteString(lines.Text() + "\n"); strings.Contains(lines.Text(), want) {
				select {
				case found <- lines.Text():
				default:
				}
			}
		}
		close(found)
		printed <- all.String()
	}()
	t.Cleanup(func() {
		signalled := cmd.Process.Signal(syscall.SIGTERM)
		text := <-printed
		if err := cmd.Wait(); err != nil || signalled != nil {
			t.Errorf("%s ended with %v (%v):\n%s", args[0], err, signalled, text)
		}
	})
	line, ok := <-found
	if !ok {
		t.Fatalf("%s did not print %q", args[0], want)
	}
	return line
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
