//go:build realagents

package main

import (
	"bytes"
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

// realPrograms puts only the installed codex and claude on the PATH and configures them to use a fake
// model.
func realPrograms(t *testing.T, play func(fakemodel.Request) fakemodel.Answer) *fakemodel.Server {
	t.Helper()
	bin, err := filepath.Abs("../../agent/exec/testdata/programs/node_modules/.bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"codex", "claude"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			t.Fatalf("%v: make test-real-agents installs it", err)
		}
	}
	model, err := fakemodel.Start(play)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	})
	// The Go command would not find its cache under this HOME; the test does not run it.
	for name, value := range fakemodel.Environment(model.URL, t.TempDir()) {
		t.Setenv(name, value)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	if err := fakemodel.ConfigureCodex(os.Getenv("CODEX_HOME"), model.URL); err != nil {
		t.Fatal(err)
	}
	return model
}

// recallAnswer replies with all messages of the user.
func recallAnswer(r fakemodel.Request) fakemodel.Answer {
	var texts []string
	for _, turn := range r.Turns {
		if turn.Role == "user" && !strings.HasPrefix(turn.Text, "<") {
			texts = append(texts, strings.TrimSpace(turn.Text))
		}
	}
	return fakemodel.Reply("You said: ", strings.Join(texts, " | "))
}

// output runs a command, logs it with its output, and returns stdout.
func (h *fixture) output(args ...string) string {
	h.t.Helper()
	var out bytes.Buffer
	code, stderr := h.run(h.t.Context(), &out, args...)
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = arg
		if strings.ContainsAny(arg, " ?") {
			words[i] = fmt.Sprintf("%q", arg)
		}
	}
	h.t.Logf("$ mailroom %s\n%s%s", strings.Join(words, " "), stderr, out.String())
	if code != exitDone {
		h.t.Fatalf("exit code %d", code)
	}
	return out.String()
}

func TestRealAgentContinuesItsSessionAfterItsServerIsKilled(t *testing.T) {
	for _, name := range []string{"codex", "claude"} {
		t.Run(name, func(t *testing.T) {
			realPrograms(t, recallAnswer)
			h := newFixture(t, "")
			p := &process{}
			h.process(p)
			want := "You said: My word is lemon.\n"
			if got := h.output("send", "--thread", "demo", "--agent", name, "My word is lemon."); got != want {
				t.Errorf("the first reply is %q, want %q", got, want)
			}
			t.Log("$ kill -9 the server; mailroom serve")
			p.kill()
			h.process(p)
			want = "You said: My word is lemon. | What was it?\n"
			if got := h.output("send", "--thread", "demo", "--agent", name, "What was it?"); got != want {
				t.Errorf("the second reply is %q, want %q: the same session", got, want)
			}
			h.output("threads", "show", "demo")
			h.output("agents")
		})
	}
}

func TestRealAgentOrphanedByAKillIsKilledAndItsRunContinues(t *testing.T) {
	for name, tool := range map[string]fakemodel.Call{
		"codex": {Name: "exec_command", Input: map[string]any{"cmd": "tail -f /dev/null", "yield_time_ms": 30000}},
		"claude": {Name: "Bash", Input: map[string]any{"command": "tail -f /dev/null", "description": "Wait",
			"timeout": 600000}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			realPrograms(t, func(r fakemodel.Request) fakemodel.Answer {
				if asked.Add(1) == 1 {
					return fakemodel.Answer{Text: []string{"I wait."}, Calls: []fakemodel.Call{tool}}
				}
				return recallAnswer(r)
			})
			t.Setenv("IS_SANDBOX", "1") // otherwise claude refuses permissions "all" as root
			h := newFixture(t, fmt.Sprintf("[agents.%s]\nkind = %q\npermissions = \"all\"\n", name, name))
			p := &process{}
			h.process(p)
			h.output("send", "--thread", "demo", "--agent", name, "--detach", "My word is lemon.")
			left := h.waitProcesses("tail", func(words []string) bool { return slices.Contains(words, "tail -f /dev/null") })
			t.Logf("$ kill -9 the server, in the middle of the turn\n$ ps\n%s", strings.Join(left, "\n"))
			p.kill()
			h.process(p)
			if got := h.output("attach", "demo"); !strings.Contains(got, "My word is lemon.") {
				t.Errorf("the reply is %q, want it to contain the word", got)
			}
			left = h.waitProcesses("end of all", func(words []string) bool { return len(words) == 0 })
			t.Logf("$ ps\n%s", strings.Join(left, "\n"))
			h.output("threads", "show", "demo")
		})
	}
}

// waitProcesses waits until fit accepts the commands of the test's processes.
func (h *fixture) waitProcesses(what string, fit func(commands []string) bool) []string {
	h.t.Helper()
	// the start and end of foreign processes cannot be awaited
	for late := time.Now().Add(waitTimeout); ; <-time.After(10 * time.Millisecond) {
		commands := agentProcesses(h.t)
		if fit(commands) {
			return commands
		}
		if time.Now().After(late) {
			h.t.Fatalf("timeout waiting for %s; commands %q", what, commands)
		}
	}
}

// agentProcesses returns the commands of the running processes with this test's home, except servers.
func agentProcesses(t *testing.T) (commands []string) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range found {
		env, err := os.ReadFile(file)
		if err != nil || !slices.Contains(strings.Split(string(env), "\x00"), "HOME="+os.Getenv("HOME")) {
			continue // err: the process has just ended
		}
		command, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		words := strings.Join(strings.FieldsFunc(string(command), func(r rune) bool { return r == 0 }), " ")
		if err == nil && words != "" && !strings.Contains(words, " serve ") { // a zombie has no command line
			commands = append(commands, words)
		}
	}
	return commands
}

func TestRealQuestionOfClaudeIsApprovedInTheTerminal(t *testing.T) {
	folder := t.TempDir()
	realPrograms(t, func(r fakemodel.Request) fakemodel.Answer {
		if result, done := r.Result(); done {
			return fakemodel.Reply("It says: ", result)
		}
		return fakemodel.Answer{Calls: []fakemodel.Call{{Name: "Bash", Input: map[string]any{
			"command": "touch made && echo made", "description": "Make the file",
		}}}}
	})
	h := newFixture(t, fmt.Sprintf("[agents.claude]\nkind = \"claude\"\ndir = %q\n", folder))
	p := &process{}
	h.process(p)
	h.output("send", "--thread", "demo", "--agent", "claude", "--detach", "Make the file.")
	if err := awaitEntry(h.dir, "demo", "run.waiting"); err != nil {
		t.Fatal(err)
	}
	h.output("tickets")
	t.Log("$ kill -9 the server; mailroom serve")
	p.kill()
	h.process(p)
	h.output("approve", "demo")
	if got, want := h.output("attach", "demo"), "It says: made\n"; got != want {
		t.Errorf("the reply is %q, want %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(folder, "made")); err != nil {
		t.Error(err)
	}
	h.output("threads", "show", "demo")
}
