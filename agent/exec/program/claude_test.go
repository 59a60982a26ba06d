package program

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestAMessageIsNoCommandToClaude(t *testing.T) {
	p := claude()
	for _, words := range []string{"/clear", "/model sonnet", "hello", " /clear", "a\n/clear"} {
		for name, write := range map[string]func(string) string{"prompt": p.Prompt, "steered": p.Stdin.Steer} {
			var line struct{ Message struct{ Content string } }
			if err := json.Unmarshal([]byte(write(words)), &line); err != nil {
				t.Fatal(err)
			}
			if got := line.Message.Content; strings.HasPrefix(got, "/") || strings.TrimSpace(got) != strings.TrimSpace(words) {
				t.Errorf("%s: %q is encoded as %q", name, words, got)
			}
		}
	}
	if !slices.Contains(p.Env, "CLAUDE_CODE_DISABLE_FILE_MENTIONS=1") {
		t.Errorf("with %q a message can name a file that is read without permission", p.Env)
	}
}
