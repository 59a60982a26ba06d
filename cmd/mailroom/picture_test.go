package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"mailroom/channel/telegram/telegramtest"
)

// TestAPictureIsAFileThatTheAgentCanRead has the agent's command copy the file.
func TestAPictureIsAFileThatTheAgentCanRead(t *testing.T) {
	t.Parallel()
	b := newTelegramFixture(t, `read -r word name path; test "$word $name" = "file photo.jpg" && cat "$path" >seen;`)
	b.tg.Up(t)
	b.serve()
	b.ann.Sends(b.ann.Private(), "what is this?", telegramtest.MessageOptions{File: "photo.jpg", Photo: true,
		Content: []byte("a cat")})
	b.tg.WaitFor(t, "the answer", func() bool { return slices.Equal(b.ann.Private().Texts(), []string{"WHAT IS THIS?"}) })
	if seen, err := os.ReadFile(filepath.Join(string(b.dir), "seen")); string(seen) != "a cat" || err != nil {
		t.Errorf("copy of the agent: %q, %v", seen, err)
	}
}
