package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mailroom/app/command"
)

// entryName is the name of the MCP server in the configuration of a harness.
const entryName = "mailroom"

// serverEntry is an MCP server in the configuration of a harness.
type serverEntry struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

func (e serverEntry) equal(o serverEntry) bool {
	return e.Command == o.Command && slices.Equal(e.Args, o.Args) && maps.Equal(e.Env, o.Env)
}

// isOwn reports whether connect has made the entry: it starts a program of this name with a context, which is what
// no manual describes.
func (e serverEntry) isOwn() bool {
	return strings.HasPrefix(filepath.Base(e.Command), "mailroom") && len(e.Args) == 5 && e.Args[0] == "mcp" &&
		e.Args[1] == "--context" && e.Args[3] == "--thread"
}

func (e serverEntry) String() string {
	words := make([]string, 0, len(e.Args)+1)
	for _, word := range append([]string{e.Command}, e.Args...) {
		words = append(words, command.Quote(word))
	}
	return strings.Join(words, " ")
}

// harness is a coding program that connect configures. It changes the configuration by the commands of the program
// itself, which know its format and where it is; it reads it without them where they start the servers in it.
type harness struct {
	name   string
	find   func(ctx context.Context, con *command.Console) (e serverEntry, ok bool, err error)
	remove func() []string
	add    func(e serverEntry) []string
}

func harnesses() map[string]harness {
	return map[string]harness{
		"claude": {
			name: "claude", find: findClaudeEntry,
			remove: func() []string { return []string{"mcp", "remove", entryName, "--scope", "user"} },
			add: func(e serverEntry) []string {
				return e.append([]string{"mcp", "add", entryName, "--scope", "user"}, "--env")
			},
		},
		"codex": {
			name: "codex", find: findCodexEntry,
			remove: func() []string { return []string{"mcp", "remove", entryName} },
			add: func(e serverEntry) []string {
				return e.append([]string{"mcp", "add", entryName}, "--env")
			},
		},
	}
}

// append adds the entry to the words of a command.
func (e serverEntry) append(words []string, env string) []string {
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		words = append(words, env, name+"="+e.Env[name])
	}
	return append(append(words, "--", e.Command), e.Args...)
}

// words returns a command of the harness for a shell.
func (h harness) words(args []string) string {
	return serverEntry{Command: h.name, Args: args}.String()
}

const (
	// harnessTimeout bounds a command of a harness.
	harnessTimeout = time.Minute
	// maxHarnessFile bounds a configuration that is read, in bytes.
	maxHarnessFile = 64 << 20
)

// run runs a command of the harness. What it prints is part of the error.
func (h harness) run(ctx context.Context, args []string) error {
	_, err := h.output(ctx, args)
	return err
}

// output runs a command of the harness and returns what it prints to its standard output.
func (h harness) output(ctx context.Context, args []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, harnessTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.name, args...)
	cmd.WaitDelay = time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, command.Errorf(command.ExitFailed, "install it, or put its folder on the PATH", "no program %s", h.name)
	case err != nil:
		return nil, command.Errorf(command.ExitFailed, "", "`%s` failed: %w: %s", h.words(args), err,
			command.Shorten(cmp.Or(strings.TrimSpace(said.String()), strings.TrimSpace(out.String()), "no output"), 300))
	}
	return out.Bytes(), nil
}

// findClaudeEntry reads the entry from the file of the user's settings: the commands of claude that show it also start
// the server.
func findClaudeEntry(_ context.Context, con *command.Console) (e serverEntry, ok bool, err error) {
	path := filepath.Join(cmp.Or(con.Env("CLAUDE_CONFIG_DIR"), con.Env("HOME")), ".claude.json")
	text, err := readHarnessFile(path)
	if err != nil || text == nil {
		return e, false, err
	}
	var file struct {
		Servers map[string]serverEntry `json:"mcpServers"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return e, false, command.Errorf(command.ExitFailed, "repair it first, and nothing is lost",
			"%s cannot be read as claude's settings: %w", path, err)
	}
	e, ok = file.Servers[entryName]
	return e, ok, nil
}

// readHarnessFile reads a file without its byte order mark. It returns nil for a missing or empty one.
func readHarnessFile(path string) (text []byte, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, command.Errorf(command.ExitFailed, "", "%w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, command.Errorf(command.ExitFailed, "", "%w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxHarnessFile {
		return nil, command.Errorf(command.ExitFailed, "", "%s is not a file of at most %d MiB", path, maxHarnessFile>>20)
	}
	text, err = io.ReadAll(io.LimitReader(f, maxHarnessFile))
	if err != nil {
		return nil, command.Errorf(command.ExitFailed, "", "%w", err)
	}
	if text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")); len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	return text, nil
}

// findCodexEntry asks codex, whose command starts no server.
func findCodexEntry(ctx context.Context, _ *command.Console) (e serverEntry, ok bool, err error) {
	h := harnesses()["codex"]
	args := []string{"mcp", "list", "--json"}
	out, err := h.output(ctx, args)
	if err != nil {
		return e, false, err
	}
	var all []struct {
		Name      string
		Transport serverEntry
	}
	if err := json.Unmarshal(out, &all); err != nil {
		return e, false, fmt.Errorf("`%s` printed no list: %w", h.words(args), err)
	}
	for _, s := range all {
		if s.Name == entryName {
			return s.Transport, true, nil
		}
	}
	return e, false, nil
}
