//go:build realagents

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom/internal/fakemodel"
)

// TestRealGeminiReadsMailWithItsNextTurn lets gemini read what waits when its user writes to it the next time: no
// program can begin a turn of gemini. Whatever becomes of the server, the user's words reach the model.
func TestRealGeminiReadsMailWithItsNextTurn(t *testing.T) {
	m := &reader{name: "gemini", seen: map[string]string{}, changed: make(chan struct{}, 10_000)}
	model := realPrograms(t, m.play)
	env, err := fakemodel.ConfigureGemini(os.Getenv("HOME"), model.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
	t.Setenv("XDG_STATE_HOME", "")
	h := newFixture(t, "")
	h.serve()
	s := &realSession{h: h, model: m, name: "gemini", dir: t.TempDir()}
	s.connect()
	turn := func(words string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "gemini", "--approval-mode", "yolo", "--skip-trust", "-p", words)
		cmd.Dir = s.dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("gemini: %v: %s", err, out)
		}
		t.Logf("$ gemini -p %q\n%s", words, out)
	}
	turn("hello")
	if slices.ContainsFunc(model.Requests(), func(r fakemodel.Request) bool { return r.Contains("Mailroom notice") }) {
		t.Error("an empty inbox was announced")
	}
	h.sendTo("mine", "one")
	h.sendTo("mine", "two")
	h.awaitWaiting("mine", 2)
	turn("hello again")
	if want := []string{"one", "two"}; !slices.Equal(m.read, want) {
		t.Errorf("read %q, want %q", m.read, want)
	}
	h.server.kill()
	turn("are you there?")
	if all := model.Requests(); !all[len(all)-1].Contains("are you there?") {
		t.Error("without the server, the words of the user did not reach the model")
	}
	h.process(h.server, "--listen", strings.TrimPrefix(h.server.url, "http://"))
	s.disconnect()
	if _, err := os.Stat(filepath.Join(os.Getenv("HOME"), ".gemini", "extensions", "mailroom")); err == nil {
		t.Error("the extension is left")
	}
}
