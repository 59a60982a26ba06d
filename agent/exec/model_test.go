package exec_test

import (
	"os"
	"path/filepath"
	"testing"

	"mailroom/agent/exec"
	"mailroom/agent/exec/program"
	"mailroom/thread"
)

// codexTurn is a program that prints a turn of codex, which does not name a model.
const codexTurn = `#!/bin/sh
cat >/dev/null
echo '{"type":"thread.started","thread_id":"0199a213-81c0-7800-8aa1-bbab2a035a53"}'
echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"hi"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":4,"output_tokens":1}}'
`

func TestTheUsageOfCodexNamesItsModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "codex")
	if err := os.WriteFile(path, []byte(codexTurn), 0o755); err != nil {
		t.Fatal(err)
	}
	h := newFixture(t, "", func(o *exec.ProgramOptions) {
		o.Profile, o.Program, o.Model, o.TakesOptions = program.Find("codex"), path, "configured", []string{exec.OptionModel}
	})
	for name, options := range map[string]string{"configured": "", "chosen": `{"model":"chosen"}`} {
		run := h.send(name, "hello", func(in *thread.Submit) { in.Options = []byte(options) })
		if used := h.ended(name, run).Usage; used.Model != name || used.InputTokens != 10 || used.CacheReadTokens != 4 {
			t.Errorf("%+v, want a usage of the model %s", used, name)
		}
	}
}
