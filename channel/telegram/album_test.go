package telegram_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/telegram"
	"mailroom/channel/telegram/telegramtest"
)

// discardFiles is a [chat.FileStore] that discards the content.
type discardFiles struct{}

func (discardFiles) Save(_ context.Context, name string, r io.Reader) (string, error) {
	_, err := io.Copy(io.Discard, r)
	return "nowhere:" + name, err
}

// TestPeopleAreAnsweredWhileAnAlbumIsFetched sends two files whose downloads stop halfway, and
// checks that ten other people get replies in the meantime.
func TestPeopleAreAnsweredWhileAnAlbumIsFetched(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	release := tg.HoldFiles()
	server := channeltest.NewServer(t, newPlatform(t, tg))
	server.Options.Access, server.Options.Files = chat.AccessPolicy{AllowAll: true}, discardFiles{}
	server.Agent = func(ctx context.Context, s mailroom.Session) error {
		input, err := s.Input(ctx)
		if err != nil {
			return err
		}
		return s.Stream(ctx, fmt.Sprintf("You said: %s and %d files", input[0].Text, len(input[0].Parts)-1))
	}
	server.Start()
	ann := tg.Person("Ann")
	for range 2 { // an album is one message per file
		ann.Sends(ann.Private(), "look", telegramtest.MessageOptions{File: "a.bin", Content: []byte("content")})
	}
	tg.WaitFor(t, "the first download", func() bool { return tg.Downloads() > 0 })
	for i := range 10 {
		p := tg.Person(fmt.Sprint("P", i))
		p.Sends(p.Private(), "hello")
		tg.WaitFor(t, "the reply to "+p.Name, func() bool {
			return slices.Contains(p.Private().Texts(), "You said: hello and 0 files")
		})
	}
	tg.WaitFor(t, "the confirmation of all", func() bool { return tg.Pending() == 0 })
	if got := ann.Private().Replies(); len(got) > 0 {
		t.Errorf("reply to the album before its download: %+v", got)
	}
	release()
	tg.WaitFor(t, "the replies to the album", func() bool { return len(ann.Private().Replies()) == 2 })
	for _, m := range ann.Private().Replies() {
		if m.Text != "You said: look and 1 files" {
			t.Errorf("reply to the album: %q", m.Text)
		}
	}
	if n := tg.Downloads(); n != 2 || strings.Count(tg.String(), "getMe 200: 1\n") != 1 {
		t.Errorf("%d downloads of 2 files:\n%s", n, tg)
	}
}

// TestAnAlbumIsOneRunWithAllItsFiles sends an album, whose pieces Telegram delivers as messages of their own.
func TestAnAlbumIsOneRunWithAllItsFiles(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	release := tg.HoldFiles()
	server := channeltest.NewServer(t, newPlatform(t, tg))
	server.Options.Access, server.Options.Files = chat.AccessPolicy{AllowAll: true}, discardFiles{}
	server.Agent = func(ctx context.Context, s mailroom.Session) error {
		input, err := s.Input(ctx)
		if err != nil {
			return err
		}
		files := 0
		for _, m := range input {
			for _, p := range m.Parts {
				if p.Type == "file" {
					files++
				}
			}
		}
		return s.Stream(ctx, fmt.Sprintf("You said: %s, with %d files", input[0].Text, files))
	}
	server.Start()
	ann := tg.Person("Ann")
	for i, text := range []string{"look", "", ""} {
		ann.Sends(ann.Private(), text, telegramtest.MessageOptions{
			File: fmt.Sprint(i, ".bin"), Content: []byte("content"), Fields: map[string]any{"media_group_id": "13"},
		})
	}
	tg.WaitFor(t, "the first download", func() bool { return tg.Downloads() > 0 })
	tg.WaitFor(t, "the confirmation of all", func() bool { return tg.Pending() == 0 })
	release()
	tg.WaitFor(t, "the reply", func() bool { return len(ann.Private().Replies()) > 0 })
	server.AwaitSettled()
	if got := ann.Private().Texts(); !slices.Contains(got, "You said: look, with 3 files") ||
		len(ann.Private().Replies()) != 1 {
		t.Errorf("replies %q, want one to the album", got)
	}
}

// The text with the mention comes with the last piece, after the server was killed: the pieces before it have not been
// confirmed, and come again. They do so without a restart too, which changes nothing.
func TestAnAlbumOfAGroupOutlivesAKillBeforeItsMention(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{true, false} {
		t.Run(fmt.Sprint("killed=", killed), func(t *testing.T) {
			t.Parallel()
			tg := telegramtest.New(t)
			tg.SetReadsAll(true)
			server := channeltest.NewServer(t, newPlatform(t, tg, func(o *telegram.Options) { o.AlbumWait = time.Hour }))
			server.Options.Access, server.Options.Files = chat.AccessPolicy{AllowAll: true}, discardFiles{}
			server.Agent = countFiles
			server.Start()
			ann, dev := tg.Person("Ann"), tg.Group("Dev")
			piece := func(i int, text string) {
				ann.Sends(dev, text, telegramtest.MessageOptions{
					File: fmt.Sprint(i, ".bin"), Content: []byte("content"), Fields: map[string]any{"media_group_id": "13"},
				})
			}
			piece(0, "")
			piece(1, "")
			ann.Sends(dev, "@"+telegramtest.Username+" first", telegramtest.MessageOptions{})
			tg.WaitFor(t, "the reply to what was sent after the pieces", func() bool { return len(dev.Replies()) == 1 })
			if killed {
				server.Stop()
			}
			piece(2, "@"+telegramtest.Username+" look")
			if killed {
				server.Start()
			}
			tg.WaitFor(t, "the reply", func() bool { return len(dev.Replies()) > 1 })
			server.AwaitSettled()
			if got := dev.Texts(); !slices.Contains(got, "You said 3 files") || len(dev.Replies()) != 2 {
				t.Errorf("replies %q, want one to the album", got)
			}
		})
	}
}

// countFiles says how many files a run has got.
func countFiles(ctx context.Context, s mailroom.Session) error {
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	files := 0
	for _, m := range input {
		for _, p := range m.Parts {
			if p.Type == "file" {
				files++
			}
		}
	}
	return s.Stream(ctx, fmt.Sprintf("You said %d files", files))
}
