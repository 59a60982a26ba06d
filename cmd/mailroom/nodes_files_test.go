package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom/api"
	"mailroom/channel/telegram/telegramtest"
	"mailroom/entry"
)

// TestAFileOfAChatIsReadByAnAgentOfAnotherServer sends files to the server that has the channel. Only the
// other one has the agent, whose command copies the file. In between it is killed and loses its files.
func TestAFileOfAChatIsReadByAnAgentOfAnotherServer(t *testing.T) {
	t.Parallel()
	b := newTelegramFixture(t, `read -r word name path; cat "$path" >seen; echo "$path" >where;`)
	b.tg.Up(t)
	c := newNodes(b.fixture, 2)
	chat, agent := c.all[0], c.all[1]
	settings, err := os.ReadFile(chat.dir.Config())
	if err != nil {
		t.Fatal(err)
	}
	begin, end := strings.Index(string(settings), "[agents.shout]"), strings.Index(string(settings), "[channels.tg]")
	store := strings.Index(string(settings), "[store]")
	chat.configure(string(settings[:begin]) + string(settings[end:]))
	agent.configure(string(settings[:end]) + string(settings[store:]))
	chat.serve()
	agent.serve()
	chat.waitChannel("tg", api.ChannelConnected)
	content := strings.Repeat("a cat of many pixels", 40_000)
	read := func(path string) string {
		t.Helper()
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		return strings.TrimSuffix(string(raw), "\n")
	}
	var want []string
	for i, again := range []func(){func() {}, func() {
		agent.server.kill()
		if err := os.RemoveAll(string(agent.dir.Files())); err != nil { // as on a new machine
			t.Fatal(err)
		}
		agent.serve()
	}} {
		again()
		text := fmt.Sprint("what is this, ", i)
		b.ann.Sends(b.ann.Private(), text, telegramtest.MessageOptions{File: "photo.jpg", Photo: true,
			Content: []byte(content)})
		want = append(want, strings.ToUpper(text))
		b.tg.WaitFor(t, "the answer", func() bool { return slices.Equal(b.ann.Private().Texts(), want) })
		chat.waitEntries(b.out(), entry.KindCompleted, len(want))
		where := read(filepath.Join(string(chat.dir), "where")) // the agents use the folder of the first
		if seen := read(filepath.Join(string(chat.dir), "seen")); seen != content ||
			!strings.HasPrefix(where, string(agent.dir.Files())) {
			t.Errorf("the agent has read %d bytes of %s, want the %d of a file of its server", len(seen), where, len(content))
		}
	}
}
