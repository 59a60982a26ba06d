package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"mailroom/app/command"
)

// geminiMark begins the files of gemini's extension, and says whose they are.
const geminiMark = "{\n  \"description\": " +
	"\"Written by `mailroom connect gemini`; `mailroom disconnect gemini` removes it.\",\n"

// geminiFile returns a part that is a file of gemini's extension, a folder of this command alone. Gemini takes a folder
// without an installation.
func geminiFile(name string, content func(n *connection, want serverEntry) any) part {
	return func(_ context.Context, con *command.Console, n *connection, want serverEntry) (p partState, err error) {
		text, err := json.MarshalIndent(content(n, want), "", "  ")
		if err != nil {
			return p, err
		}
		home := cmp.Or(con.Env("GEMINI_CLI_HOME"), con.Env("HOME"))
		path := filepath.Join(home, ".gemini", "extensions", entryName, filepath.FromSlash(name))
		return ownFile(path, append([]byte(geminiMark), text[2:]...), geminiMark, true)
	}
}

// geminiManifest describes the extension: the MCP server, which rings nothing, because no program can begin a turn of
// gemini.
func geminiManifest(_ *connection, want serverEntry) any {
	return struct {
		Name    string                 `json:"name"`
		Version string                 `json:"version"`
		Servers map[string]serverEntry `json:"mcpServers"`
	}{entryName, "1.0.0", map[string]serverEntry{entryName: {want.Command, append(want.Args, "--silent"), want.Env}}}
}

// geminiHooks adds a note to what the user says, while messages wait. Gemini runs the command by a shell; the exit code
// 2 would reject the words of the user, so the command ends with 0 whatever happens.
func geminiHooks(n *connection, want serverEntry) any {
	type hook struct {
		Name    string `json:"name"`
		Type    string `json:"type"`
		Command string `json:"command"`
		Timeout int    `json:"timeout"` // milliseconds
	}
	words := []string{want.Command, "--context", n.context, "inbox", "wait", n.thread, "--note"}
	for i, word := range words {
		words[i] = command.Quote(word)
	}
	for _, name := range slices.Sorted(maps.Keys(want.Env)) { // gemini passes few variables to its hooks
		words = append([]string{name + "=" + command.Quote(want.Env[name])}, words...)
	}
	return map[string]any{"hooks": map[string]any{"BeforeAgent": []any{map[string]any{"hooks": []hook{
		{entryName, "command", strings.Join(words, " ") + " || true", 2 * int(noteTimeout.Milliseconds())}}}}}}
}
