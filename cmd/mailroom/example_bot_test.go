package main

import (
	"database/sql"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mailroom/channel/platformtest"
	"mailroom/channel/telegram/telegramtest"
)

// TestTheExampleOfATelegramBotAnswersOnceAfterAKill follows the README of the example against a fake Telegram.
func TestTheExampleOfATelegramBotAnswersOnceAfterAKill(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	h := newFixture(t, "")
	copyExample(t, "telegram-bot", string(h.dir)) // where the server and the script run
	settings := readExample(t, "telegram-bot/mailroom.toml")
	h.configure("isolation = \"none\"\n" + settings)
	if code, output := h.addChannel("\n"+telegramtest.Token+"\n", "telegram", "--api", tg.URL); code != exitDone {
		t.Fatalf("exit code %d: %s", code, output)
	}
	added, _ := strings.CutPrefix(readFile(t, h.dir.Config()), "isolation = \"none\"\n"+settings)
	quick := retryQuickly + "poll = \"1s\"\njoin_within = \"0s\"\npreviews = false\n"
	h.configure("isolation = \"none\"\n" + settings + added + quick)
	h.serve()
	say := func(text string) { ann.Sends(ann.Private(), text) }
	replies := func() []string { return ann.Private().Texts() }

	say("buy milk")
	tg.WaitFor(t, "a code", func() bool { return len(replies()) == 1 })
	code := regexp.MustCompile(`pair approve (\S+)`).FindStringSubmatch(replies()[0])
	if code == nil {
		t.Fatalf("the bot answered %q", replies())
	}
	if status, stderr := h.run(t.Context(), io.Discard, "pair", "approve", code[1]); status != exitDone {
		t.Fatalf("exit code %d: %s", status, stderr)
	}
	tg.WaitFor(t, "the answer to the approval", func() bool { return len(replies()) == 2 })
	pause := filepath.Join(string(h.dir), "pause")
	if err := os.WriteFile(pause, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	say("buy bread")
	list := filepath.Join(string(h.dir), "todo.db")
	platformtest.WaitFor(t, "the line of the message", func() bool { return linesOf(t, list) == 1 })
	h.server.kill()
	if err := os.Remove(pause); err != nil {
		t.Fatal(err)
	}
	h.serve()
	want := replies()
	for _, step := range [][2]string{{"", "1. buy bread"}, {"call Ann", "1. buy bread\n2. call Ann"},
		{"done 1", "1. call Ann"}, {"list", "1. call Ann"}, {"done 1", "Nothing to do."}} {
		if step[0] != "" { // the first one was sent before the kill
			say(step[0])
		}
		want = append(want, step[1])
		waitReplies(t, tg, replies, step[0], want)
	}
	if n := linesOf(t, list); n != 2 {
		t.Errorf("the list has %d lines, want one for each message that adds one", n)
	}
}

// waitReplies waits for as many replies as wanted and compares them.
func waitReplies(t *testing.T, tg *telegramtest.Platform, replies func() []string, text string, want []string) {
	t.Helper()
	tg.WaitFor(t, "the reply to "+text, func() bool { return len(replies()) >= len(want) })
	if got := replies(); !slices.Equal(got, want) {
		t.Fatalf("after %q the chat has %q, want %q", text, got, want)
	}
}

// linesOf returns how many lines the bot has stored; 0 before it has made its table.
func linesOf(t *testing.T, path string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.QueryRow("SELECT count(*) FROM todo").Scan(&n)
	if err != nil && !strings.Contains(err.Error(), "no such table") {
		t.Fatal(err)
	}
	return n
}
