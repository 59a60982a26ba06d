package bell_test

import (
	"os"
	"path/filepath"
	"testing"

	"mailroom/protocol/bell"
)

func TestTheRecordOfASessionSaysWhatItWaitsFor(t *testing.T) {
	dir := t.TempDir()
	env := func(name string) string { return map[string]string{"CLAUDE_CONFIG_DIR": dir}[name] }
	record := (&bell.Claude{Socket: "/tmp/x/12.sock"}).Record(env)
	if want := filepath.Join(dir, "sessions", "12.json"); record != want {
		t.Fatalf("the record is %s, want %s", record, want)
	}
	if err := os.Mkdir(filepath.Dir(record), 0o700); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"sessionId":"s","status":"waiting","waitingFor":"permission prompt"}`: "permission prompt",
		`{"sessionId":"s","status":"waiting"}`:                                  "a question",
		`{"sessionId":"other","status":"waiting","waitingFor":"x"}`:             "",
		`{"sessionId":"s","status":"busy","waitingFor":"x"}`:                    "",
		`{`: "",
	} {
		if err := os.WriteFile(record, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := bell.ClaudeWaits(record, "s"); got != want {
			t.Errorf("%s: it waits for %q, want %q", text, got, want)
		}
	}
	for _, path := range []string{"", dir, filepath.Join(dir, "none")} {
		if got := bell.ClaudeWaits(path, "s"); got != "" {
			t.Errorf("%s: it waits for %q", path, got)
		}
	}
}
