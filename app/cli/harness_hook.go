package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"mailroom/app/command"
	"mailroom/internal/jsontext"
)

// hookEntry is a hook in the settings of claude that runs a command.
type hookEntry struct {
	Type    string   `json:"type"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
	// AsyncRewake lets the command run in the background, and begin a turn by its exit code 2.
	AsyncRewake bool `json:"asyncRewake"`
	Timeout     int  `json:"timeout"` // seconds
}

// hookGroup is an item of the hooks of an event.
type hookGroup struct {
	Hooks []hookEntry `json:"hooks"`
}

// hookTimeout is how long claude lets the hook wait: a day, in seconds. The next turn starts another one.
const hookTimeout = 24 * 60 * 60

// hookPath is where the hooks for the end of a turn are in the settings of claude.
func hookPath() []string { return []string{"hooks", "Stop"} }

// isOwnHook reports whether connect has made an item of the hooks: it runs a program of this name as a hook with a
// context, which is what no manual describes.
func isOwnHook(item []byte) bool {
	var g hookGroup
	if json.Unmarshal(item, &g) != nil || len(g.Hooks) != 1 {
		return false
	}
	e := g.Hooks[0]
	return strings.HasPrefix(filepath.Base(e.Command), "mailroom") && len(e.Args) == 6 && e.Args[0] == "--context" &&
		e.Args[2] == "inbox" && e.Args[3] == "wait" && e.Args[5] == "--rewake"
}

// claudeHook is the part of claude's settings that rings a session without a ringing MCP server: an asyncRewake hook.
// It edits the file, because claude has no command for that, and keeps all other bytes.
func claudeHook(ctx context.Context, con *command.Console, n *connection, want serverEntry) (p partState, err error) {
	path := filepath.Join(cmp.Or(con.Env("CLAUDE_CONFIG_DIR"), filepath.Join(con.Env("HOME"), ".claude")), "settings.json")
	text, err := readHarnessFile(path)
	if err != nil {
		return p, err
	}
	if text == nil {
		text = []byte("{}")
	}
	items, err := jsontext.Items(text, hookPath()...)
	if err != nil {
		return p, command.Errorf(command.ExitFailed, "repair it first, and nothing is lost",
			"%s cannot be read as claude's settings: %w", path, err)
	}
	group := hookGroup{[]hookEntry{{Type: "command", Command: want.Command, AsyncRewake: true, Timeout: hookTimeout,
		Args: []string{"--context", n.context, "inbox", "wait", n.thread, "--rewake"}}}}
	wanted, err := json.Marshal(group)
	if err != nil {
		return p, err
	}
	p.what = "the hook that rings a session without an inbox socket"
	for _, item := range items {
		if isOwnHook(item) {
			p.same = !p.exists && equalJSON(item, wanted)
			p.exists, p.what = true, string(item)
		}
	}
	p.add = change{fmt.Sprintf("add to the Stop hooks in %s: %s", path, wanted), func(context.Context) error {
		return editHarnessFile(path, func(text []byte) ([]byte, error) {
			return jsontext.AddItem(text, group, hookPath()...)
		})
	}}
	p.remove = change{"remove the hook of this command from the Stop hooks in " + path, func(context.Context) error {
		return editHarnessFile(path, func(text []byte) ([]byte, error) {
			return jsontext.RemoveItems(text, isOwnHook, hookPath()...)
		})
	}}
	if !p.exists {
		p.same = !claudeRewakes(ctx) // an older claude would wait for the end of the hook after each turn
	}
	return p, nil
}

func equalJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// claudeRewakes reports whether the installed claude runs hooks with asyncRewake in the background. Its version 2.1.218
// was seen to.
func claudeRewakes(ctx context.Context) bool {
	out, err := programOutput(ctx, "claude", []string{"--version"})
	var v [3]int
	if _, scanned := fmt.Sscanf(string(out), "%d.%d.%d", &v[0], &v[1], &v[2]); err != nil || scanned != nil {
		return false
	}
	return slices.Compare(v[:], []int{2, 1, 218}) >= 0
}
