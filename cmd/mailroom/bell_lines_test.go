package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"mailroom/protocol/bell"
)

// plugin plays the plug-in of a program: it writes and reads the lines of `mailroom inbox wait --lines`.
type plugin struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out chan bell.LineRing
}

func (h *fixture) startPlugin(inbox string) *plugin {
	h.t.Helper()
	p := &plugin{t: h.t, out: make(chan bell.LineRing, 100),
		cmd: exec.Command("mailroom", "inbox", "wait", inbox, "--lines", "opencode")}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), "MAILROOM_DATA="+string(h.dir)), h.t.Output()
	in, err := p.cmd.StdinPipe()
	h.must(err)
	p.in = in
	out, err := p.cmd.StdoutPipe()
	h.must(err)
	h.must(p.cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var ring bell.LineRing
			if err := json.Unmarshal(lines.Bytes(), &ring); err != nil {
				h.t.Errorf("the plug-in got %q", lines.Text())
			}
			p.out <- ring
		}
	}()
	h.t.Cleanup(func() {
		_ = p.in.Close() // it may be closed
		killed := time.AfterFunc(waitTimeout, func() { _ = p.cmd.Process.Kill() })
		<-read // the process has ended
		if err := p.cmd.Wait(); err != nil || !killed.Stop() {
			h.t.Errorf("the process outlives its plug-in, or fails: %v", err)
		}
	})
	return p
}

func (p *plugin) say(line bell.LineSession) {
	p.t.Helper()
	if err := json.NewEncoder(p.in).Encode(line); err != nil {
		p.t.Fatal(err)
	}
}

// rung waits for a ring of a session.
func (p *plugin) rung(session string) {
	p.t.Helper()
	select {
	case ring := <-p.out:
		if ring.Session != session || !strings.Contains(ring.Text, `waits in your inbox "mine"`) ||
			strings.Contains(ring.Text, "secret") {
			p.t.Errorf("the plug-in got %+v, want a ring of %s without the text of the message", ring, session)
		}
	case <-time.After(waitTimeout):
		p.t.Fatal("the plug-in was not asked to ring")
	}
}

// awaitState waits until the list of inboxes has a text, or has it no more.
func (h *fixture) awaitState(text string, listed bool) {
	h.t.Helper()
	for end := time.Now().Add(waitTimeout); ; <-time.After(20 * time.Millisecond) {
		var out bytes.Buffer
		h.runWithListeners(&out, "inbox", "list")
		if strings.Contains(out.String(), text) == listed {
			return
		}
		if time.Now().After(end) {
			h.t.Fatalf("the list must have %q: %t:\n%s", text, listed, out.String())
		}
	}
}

// A plug-in rings the session that its user sees, and none while that one waits for its user.
func TestAPluginRingsTheSessionOfItsUser(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	h := newFixture(t, "")
	h.serve()
	h.sendTo("mine", "secret", "--agent", "inbox")
	p := h.startPlugin("mine")
	p.say(bell.LineSession{}) // no session yet
	p.say(bell.LineSession{Session: "one", Held: "it waits for its user's answer"})
	h.awaitState("held: it waits for its user's answer", true)
	if len(p.out) > 0 {
		t.Fatalf("rung while the session is held: %+v", <-p.out)
	}
	p.say(bell.LineSession{Session: "one"})
	p.rung("one")
	p.say(bell.LineSession{Session: "one", Error: "no such agent"})
	h.awaitState("no such agent", true)
	p.rung("one") // again
	p.say(bell.LineSession{Session: "one", Rung: true})
	h.awaitState("  rung", true)
	p.say(bell.LineSession{Session: "two"})
	p.rung("two")
	p.say(bell.LineSession{Session: "one", Rung: true}) // late, of the former one
	p.say(bell.LineSession{Session: "two", Rung: true})
	h.awaitState("opencode two", true)
	q := h.startPlugin("mine") // another instance of the program
	q.say(bell.LineSession{Session: "three"})
	q.rung("three")
	q.say(bell.LineSession{Session: "three", Rung: true})
	h.awaitState("opencode three", true)
	h.must(p.in.Close())
	h.awaitState("opencode two", false)
	h.awaitState("opencode three", true)
}

func TestAPluginInARunOfMailroomRingsNothing(t *testing.T) {
	h := newFixture(t, "")
	h.serve()
	m := Main{Stdin: strings.NewReader("{\"session\":\"one\"}\n"), Stdout: t.Output(), Stderr: t.Output(),
		Env: func(name string) string {
			if name == "MAILROOM_THREAD" {
				return "demo"
			}
			return h.env(name)
		}}
	if code := m.Run(t.Context(), []string{"inbox", "wait", "mine", "--lines", "opencode"}); code != exitDone {
		t.Errorf("exit code %d", code)
	}
}
