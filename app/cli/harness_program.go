package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

// harness is a coding program that connect configures.
type harness struct {
	name  string
	parts []part // the first one says whether the program is connected at all
}

// part looks at one part of the configuration of a program, for the connection n, whose MCP server is want.
type part func(ctx context.Context, con *command.Console, n *connection, want serverEntry) (partState, error)

// partState is what exists of a part, and how it is changed.
type partState struct {
	exists bool   // in any form that connect has made
	same   bool   // nothing is to do
	what   string // what is there, or what is missing
	add    change
	remove change
}

// change is a change of a configuration.
type change struct {
	line string // says what it does
	make func(ctx context.Context) error
}

func harnesses() map[string]harness {
	return map[string]harness{
		"claude": {"claude", []part{(&serverCommands{name: "claude", find: findClaudeEntry,
			scope: []string{"--scope", "user"}}).look, claudeHook}},
		"gemini": {"gemini", []part{geminiFile("gemini-extension.json", geminiManifest),
			geminiFile("hooks/hooks.json", geminiHooks)}},
		"opencode": {"opencode", []part{opencodeFile}},
		"codex":    {"codex", []part{(&serverCommands{name: "codex", find: findCodexEntry}).look}},
	}
}

// harnessNames returns the names of the programs that connect configures.
func harnessNames() []string { return slices.Sorted(maps.Keys(harnesses())) }

// serverCommands is the entry of the MCP server in the configuration of a program. It is changed by the commands of the
// program itself, which know its format and where it is; it is read without them where they start the servers in it.
type serverCommands struct {
	name  string
	find  func(ctx context.Context, con *command.Console) (e serverEntry, ok bool, err error)
	scope []string
}

func (s *serverCommands) look(
	ctx context.Context, con *command.Console, _ *connection, want serverEntry,
) (p partState, err error) {
	found, ok, err := s.find(ctx, con)
	if err != nil {
		return p, err
	}
	remove := append([]string{"mcp", "remove", entryName}, s.scope...)
	if ok && !found.isOwn() {
		return p, command.Errorf(command.ExitFailed, "remove it with `"+programWords(s.name, remove)+"`, or keep it",
			"%s has an MCP server %s that this command has not made: %s", s.name, entryName, found)
	}
	add := want.append(append([]string{"mcp", "add", entryName}, s.scope...), "--env")
	run := func(args []string) change {
		return change{"run: " + programWords(s.name, args), func(ctx context.Context) error {
			_, err := programOutput(ctx, s.name, args)
			return err
		}}
	}
	return partState{exists: ok, same: ok && found.equal(want), what: found.String(), add: run(add),
		remove: run(remove)}, nil
}

// append adds the entry to the words of a command.
func (e serverEntry) append(words []string, env string) []string {
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		words = append(words, env, name+"="+e.Env[name])
	}
	return append(append(words, "--", e.Command), e.Args...)
}

// programWords returns a command of a program for a shell.
func programWords(name string, args []string) string {
	return serverEntry{Command: name, Args: args}.String()
}

// harnessTimeout bounds a command of a harness.
const harnessTimeout = time.Minute

// programOutput runs a command of a program and returns its standard output. An error contains what it prints.
func programOutput(ctx context.Context, name string, args []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, harnessTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, command.Errorf(command.ExitFailed, "install it, or put its folder on the PATH", "no program %s", name)
	case err != nil:
		return nil, command.Errorf(command.ExitFailed, "", "`%s` failed: %w: %s", programWords(name, args), err,
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

// findCodexEntry asks codex, whose command starts no server.
func findCodexEntry(ctx context.Context, _ *command.Console) (e serverEntry, ok bool, err error) {
	args := []string{"mcp", "list", "--json"}
	out, err := programOutput(ctx, "codex", args)
	if err != nil {
		return e, false, err
	}
	var all []struct {
		Name      string
		Transport serverEntry
	}
	if err := json.Unmarshal(out, &all); err != nil {
		return e, false, fmt.Errorf("`%s` printed no list: %w", programWords("codex", args), err)
	}
	for _, s := range all {
		if s.Name == entryName {
			return s.Transport, true, nil
		}
	}
	return e, false, nil
}
