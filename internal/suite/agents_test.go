package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestTheCaseAndTheAgentAreInTheNameOfATest(t *testing.T) {
	for test, want := range map[string][2]string{
		"TestRealProgramKeepsOneSessionPerThread/codex": {"program keeps one session per thread", "codex"},
		"TestRealACPAgents/codex-acp/kill_at_its_start": {"acp agents, kill at its start", "codex-acp"},
		"TestRealErrorsOfTheModel/claude/401":           {"errors of the model, 401", "claude"},
		"TestRealACP/claude-agent-acp_while_a_tool":     {"acp, while a tool", "claude-agent-acp"},
		"TestRealGeminiReadsMail":                       {"gemini reads mail", "gemini"},
		"TestRealQuestionOfClaudeIsATicket/approve":     {"question of claude is a ticket, approve", "claude"},
		"TestRealBusySessionIsRetried":                  {"busy session is retried", "any"},
		"TestRealThing/codexes":                         {"thing, codexes", "any"},
	} {
		if name, agent := agentCase(test); name != want[0] || agent != want[1] {
			t.Errorf("%s is the case %q with %s, want %q", test, name, agent, want)
		}
	}
}

// The output of a go test with a case that passes, one that fails and one of bells.
func TestRealAgentsEndWithATable(t *testing.T) {
	lines := []string{
		`{"Action":"run","Package":"p","Test":"TestRealX"}`,
		`{"Action":"run","Package":"p","Test":"TestRealX/claude"}`,
		`{"Action":"output","Package":"p","Test":"TestRealX/claude",` +
			`"Output":"    b.go:7: an idle session  read after 1.2s\n"}`,
		`{"Action":"pass","Package":"p","Test":"TestRealX/claude","Elapsed":1.25}`,
		`{"Action":"run","Package":"p","Test":"TestRealX/codex"}`,
		`{"Action":"output","Package":"p","Test":"TestRealX/codex","Output":"    b.go:9: wrong answer\n"}`,
		`{"Action":"fail","Package":"p","Test":"TestRealX/codex","Elapsed":1}`,
		`{"Action":"fail","Package":"p","Test":"TestRealX","Elapsed":2}`,
		`{"Action":"fail","Package":"p","Elapsed":2}`,
	}
	run := func(script string) (string, bool) {
		var out bytes.Buffer
		ok := testAgents(t.Context(), newScreen(&out), []string{"sh", "-c", script})
		return out.String(), ok
	}
	got, ok := run("cat <<'END'\n" + strings.Join(lines, "\n") + "\nEND\nexit 1")
	for _, want := range []string{
		"wrong answer\n", "\nx                      1.2s    FAIL", "\nrung: an idle session  1.2s    -",
		"FAILED: make test-real-agents: 1 packages failed, 2 cases ran (exit status 1)",
	} {
		if ok || !strings.Contains(got, want) {
			t.Errorf("passed %t, printed\n%s\nwant %q", ok, got, want)
		}
	}
	got, ok = run("cat <<'END'\n" + strings.Join(lines[:2], "\n") + "\nEND\nexit 1")
	if ok || !strings.Contains(got, "\nx     unfinished") {
		t.Errorf("passed %t, printed\n%s", ok, got)
	}
	got, ok = run("cat <<'END'\n" + strings.Join(lines[:4], "\n") + "\nEND")
	if !ok || !strings.Contains(got, "ok: make test-real-agents passed") {
		t.Errorf("passed %t, printed\n%s", ok, got)
	}
	if got, ok = run("echo nothing"); ok {
		t.Errorf("without a case it passed: %s", got)
	}
}
