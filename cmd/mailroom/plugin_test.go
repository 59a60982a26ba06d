package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/entry"
)

// pluginServer returns the command of the plugin's MCP server, from its .mcp.json.
func pluginServer(t *testing.T) []string {
	t.Helper()
	var all struct {
		MCPServers map[string]struct {
			Command string
			Args    []string
		}
	}
	raw := readFile(t, "../../clients/plugin/files/mailroom/.mcp.json")
	if err := json.Unmarshal([]byte(raw), &all); err != nil {
		t.Fatal(err)
	}
	inbox := all.MCPServers["inbox"]
	return append([]string{inbox.Command}, inbox.Args...)
}

// startPluginServer starts the plugin's MCP server as an agent does.
func (h *fixture) startPluginServer(env ...string) *mcpClient {
	h.t.Helper()
	words := pluginServer(h.t)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), h.t.Output()
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(h.t.Context(),
		&sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			h.t.Errorf("close the session: %v", err)
		}
	})
	return &mcpClient{h.t, s}
}

// TestThePluginHasAnInboxAndNoneOfTheOperatorsRights starts the MCP server of the plugin beside the data folder.
func TestThePluginHasAnInboxAndNoneOfTheOperatorsRights(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "")
	h.serve()
	var peeked struct{ Total int }
	data := "MAILROOM_DATA=" + string(h.dir)
	refused := h.startPluginServer(data).call("inbox_peek", nil, &peeked)
	if !strings.Contains(refused, "no token of its own") ||
		!strings.Contains(refused, "token create NAME --scope read,submit,decide") {
		t.Errorf("with the operator's token: %q, want it refused", refused)
	}
	operator, err := h.dir.Token()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir() // of a user whose current context has the rights of the operator
	contexts := fmt.Sprintf("current = \"work\"\n[contexts.work]\nurl = %q\ntoken = %q\n", h.server.url, operator)
	if err := os.MkdirAll(filepath.Join(home, ".config/mailroom"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".config/mailroom/contexts.toml"), []byte(contexts), 0o600); err != nil {
		t.Fatal(err)
	}
	refused = h.startPluginServer("HOME="+home, "XDG_CONFIG_HOME=", "XDG_DATA_HOME=", "XDG_STATE_HOME=").
		call("inbox_peek", nil, &peeked)
	if !strings.Contains(refused, "no server on "+home) {
		t.Errorf("with the token of the current context: %q, want it unused", refused)
	}
	var out bytes.Buffer
	code, stderr := h.run(t.Context(), &out, "token", "create", "claude", "--scope", "read,submit,decide")
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	token := strings.TrimSpace(out.String())
	mine := h.startPluginServer(data, "MAILROOM_TOKEN="+token, "MAILROOM_INBOX=mine")
	mine.must("inbox_peek", nil, &peeked)
	code, stderr = h.run(t.Context(), io.Discard, "send", "--thread", "mine", "--detach", "hello")
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var first struct{ Text string }
	if mine.must("wait_for_message", map[string]any{"timeout_secs": 60}, &first); first.Text != "hello" {
		t.Errorf("the first message is %+v", first)
	}

	tools, err := mine.session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z]+_[a-z_]+)`")
	others := []string{"timeout_secs", "delegation_result"}
	found := 0
	err = filepath.WalkDir("../../clients/plugin/files", func(p string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(p) != ".md" {
			return err
		}
		for _, name := range named.FindAllStringSubmatch(readFile(t, p), -1) {
			if found++; !slices.Contains(others, name[1]) && !slices.ContainsFunc(tools.Tools, func(tool *sdk.Tool) bool {
				return tool.Name == name[1]
			}) {
				t.Errorf("%s names the tool %s, which is not there", p, name[1])
			}
		}
		return nil
	})
	if err != nil || found < 10 {
		t.Errorf("the skill names %d tools, %v", found, err)
	}
}

// TestTheScriptOfThePluginAsksAPerson follows the skill: the worker dies while the question is open.
func TestTheScriptOfThePluginAsksAPerson(t *testing.T) {
	t.Parallel()
	h := newFixture(t, shortLeaseConfig)
	h.serve()
	token, err := h.dir.Token()
	if err != nil {
		t.Fatal(err)
	}
	packages, err := filepath.Abs("../../clients/python/src")
	if err != nil {
		t.Fatal(err)
	}
	start := func() *process {
		w := h.startProcess(exec.Command("python3", "../../clients/plugin/files/mailroom/skills/mailroom/scripts/ask.py"),
			"PYTHONPATH="+packages, "PYTHONDONTWRITEBYTECODE=1", "MAILROOM_URL="+h.server.url, "MAILROOM_TOKEN="+token)
		h.waitWorker(w)
		return w
	}
	worker := start()
	code, stderr := h.run(t.Context(), io.Discard, "send", "--agent", "ask", "--thread", "ask-deploy", "May I?")
	if code != exitWaiting || !strings.Contains(stderr, "May I?") {
		t.Errorf("send: exit code %d, want %d: %s", code, exitWaiting, stderr)
	}
	worker.kill()
	if code, stderr := h.run(t.Context(), io.Discard, "answer", "ask-deploy", "Yes, after six."); code != exitDone {
		t.Fatalf("answer: exit code %d: %s", code, stderr)
	}
	start()
	var out bytes.Buffer
	code, stderr = h.run(t.Context(), &out, "attach", "ask-deploy")
	if code != exitDone || out.String() != "Yes, after six.\n" {
		t.Errorf("attach: exit code %d, %q: %s", code, out.String(), stderr)
	}
	if n := h.count("ask-deploy", entry.KindTicketOpened); n != 1 {
		t.Errorf("the question was asked %d times", n)
	}
}
