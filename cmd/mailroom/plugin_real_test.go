//go:build realagents

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"mailroom/internal/fakemodel"
)

// TestRealProgramsTakeThePlugin writes the plugin, installs it as `mailroom plugin` says, and looks at what the model
// gets: the skill, and the tools of the inbox, which it calls.
func TestRealProgramsTakeThePlugin(t *testing.T) {
	peek := map[string]any{"limit": 5}
	for name, c := range map[string]struct {
		ask   []string
		calls []fakemodel.Call
	}{
		"claude": {[]string{"-p", "--dangerously-skip-permissions"}, []fakemodel.Call{
			// claude loads the tools of MCP servers when its model asks for them.
			{Name: "ToolSearch", Input: map[string]any{"query": "select:mcp__plugin_mailroom_inbox__inbox_peek"}},
			{Name: "mcp__plugin_mailroom_inbox__inbox_peek", Input: peek}}},
		"codex": {[]string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"},
			[]fakemodel.Call{{Namespace: "mcp__inbox", Name: "inbox_peek", Input: peek}}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			model := realPrograms(t, func(r fakemodel.Request) fakemodel.Answer {
				if n := int(asked.Add(1)); n <= len(c.calls) {
					return fakemodel.Answer{Calls: c.calls[n-1 : n]}
				}
				text, _ := r.Result()
				return fakemodel.Reply("The inbox says ", text)
			})
			t.Setenv("IS_SANDBOX", "1") // otherwise claude refuses to run as root without permissions
			h := newFixture(t, "")
			h.serve()
			var token bytes.Buffer
			code, stderr := h.run(t.Context(), &token, "token", "create", "coder", "--scope", "read,submit,decide")
			if code != exitDone {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			t.Setenv("MAILROOM_DATA", string(h.dir))
			t.Setenv("MAILROOM_URL", h.server.url)
			t.Setenv("MAILROOM_TOKEN", strings.TrimSpace(token.String()))
			t.Setenv("MAILROOM_INBOX", "inbox-of-coder")
			var peeked struct{ Total int }
			h.startPluginServer().must("inbox_peek", nil, &peeked) // makes the inbox, which is the token's
			if code, stderr := h.run(t.Context(), io.Discard, "send", "--thread", "inbox-of-coder",
				"--detach", "a word from Ann"); code != exitDone {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			folder := filepath.Join(t.TempDir(), "plugin")
			var out bytes.Buffer
			if code, stderr := h.run(t.Context(), &out, "plugin", folder); code != exitDone {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			run := func(words ...string) string {
				t.Helper()
				cmd := exec.Command(words[0], words[1:]...)
				cmd.Dir = t.TempDir()
				cmd.Env = os.Environ()
				said, err := cmd.CombinedOutput()
				t.Logf("$ %s\n%s", strings.Join(words, " "), said)
				if err != nil {
					t.Fatal(err)
				}
				return string(said)
			}
			if name == "claude" {
				run("claude", "plugin", "validate", folder)
				run("claude", "plugin", "validate", filepath.Join(folder, "mailroom"))
			}
			for line := range strings.Lines(out.String()) {
				if line = strings.TrimSpace(line); strings.HasPrefix(line, name+" plugin ") {
					run("sh", "-ec", line)
				}
			}
			if said := run(append([]string{name}, append(c.ask, "What is in the inbox?")...)...); !strings.Contains(said,
				"a word from Ann") {
				t.Errorf("%s did not read the inbox", name)
			}
			requests := model.Requests()
			if !strings.Contains(string(requests[len(requests)-1].Body), "depends on the answer of a person who is away") {
				t.Errorf("the model is not told of the skill; its tools are %q", requests[0].Tools)
			}
			t.Logf("tools: %q", requests[0].Tools)
		})
	}
}
