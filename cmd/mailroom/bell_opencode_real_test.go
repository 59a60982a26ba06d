//go:build realagents

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom/internal/fakemodel"
)

// configureOpencode makes opencode use the model at url, and puts it on the PATH.
func configureOpencode(t *testing.T, url string) {
	t.Helper()
	bin, err := filepath.Abs("../../agent/exec/testdata/programs/node_modules/opencode-linux-x64/bin")
	if err == nil {
		_, err = os.Stat(filepath.Join(bin, "opencode"))
	}
	if err != nil {
		t.Fatalf("%v: make test-real-agents installs it", err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	for name, value := range fakemodel.OpencodeEnvironment(url) {
		t.Setenv(name, value)
	}
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"} { // not those of the user
		t.Setenv(name, "")
	}
}

// TestRealOpencodeReadsMailWhenItIsRung lets sessions of opencode read while they are idle, busy, and held by a
// question to the person, and over a kill of the server and of the session.
func TestRealOpencodeReadsMailWhenItIsRung(t *testing.T) {
	s := newRealSession(t, "opencode", (*realSession).connect)
	read := 0
	send := func(text string) { read++; s.h.sendTo("mine", text) }
	want := func(what string) { t.Logf("%-40s read after %s", what, s.wantRead(read).Round(time.Millisecond)) }
	for range 3 {
		send("to an idle session")
		want("an idle session")
	}

	hold := make(chan struct{})
	s.model.mu.Lock()
	s.model.hold = hold
	s.model.mu.Unlock()
	s.enter("work for a while")
	<-time.After(2 * time.Second)
	send("to a busy session")
	<-time.After(2 * time.Second)
	close(hold)
	want("a busy session")

	s.enter("ask me")
	s.listens("held: it waits for its user's answer")
	turns := s.model.turnsBegun()
	send("to a session that waits for its user")
	<-time.After(3 * time.Second)
	if s.model.turnsBegun() != turns {
		t.Error("a session that waits for its user was rung")
	}
	s.enter("") // the first choice allows it once
	want("a session that waited for its user")

	s.enter("\t") // the other agent, which plans
	s.enter("plan something")
	<-time.After(3 * time.Second)
	send("to a session that plans")
	want("a session that plans")
	if got := s.model.lastBell(); !strings.Contains(strings.ToLower(got), "plan mode") {
		t.Errorf("a bell has ended the mode that plans: the model got %q", got)
	}

	second := show(t, s.dir, s.words...)
	s.listensTimes(2, "opencode ")
	send("to two sessions")
	want("two sessions")
	second.kill()
	s.listensTimes(1, "opencode ")

	address := strings.TrimPrefix(s.h.server.url, "http://")
	s.h.server.kill()
	s.h.process(s.h.server, "--listen", address)
	send("after a kill of the server")
	want("the server was killed before the message")

	s.shown.kill()
	send("without a session")
	s.open()
	want("the session was killed before the message")

	s.disconnect()
	for text, count := range countTexts(s.model.read) {
		if count != 1 && text != "to an idle session" {
			t.Errorf("%q was read %d times", text, count)
		}
	}
	if _, err := os.Stat(filepath.Join(os.Getenv("HOME"), ".config", "opencode", "plugins", "mailroom.js")); err == nil {
		t.Error("the plug-in is left")
	}
}
