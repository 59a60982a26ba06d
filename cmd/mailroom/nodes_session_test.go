package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom/agent/exec"
	"mailroom/api"
	"mailroom/client"
)

// sessionProgram is a codex that keeps its sessions in its working folder, which is the data folder of
// its server. Its reply tells whether it knew the session, whether it got the transcript, and the turn.
const sessionProgram = `#!/bin/sh
case "$*" in --version) echo codex-cli 9.9; exit ;; esac
how=new
session=$(basename "$PWD")-$$
case "$*" in
*' exec resume '*)
	how=resumed
	session=${*% -}
	session=${session##* }
	test -e "session-$session" || { echo "no rollout found" >&2; exit 1; } ;;
esac
text=$(cat)
case "$text" in *'continued without you'*) how="$how with the transcript" ;; esac
echo turn >>"session-$session"
echo "{\"type\":\"thread.started\",\"thread_id\":\"$session\"}"
n=$(wc -l <"session-$session" | tr -d ' ')
echo "{\"type\":\"item.completed\",\"item\":{\"id\":\"item_0\",\"type\":\"agent_message\",\"text\":\"$how, turn $n: $(printf '%s' "$text" | tail -n 1)\"}}"
echo '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'
`

// sessions returns the files of the sessions on a server.
func (h *fixture) sessions() []string {
	h.t.Helper()
	found, err := filepath.Glob(filepath.Join(string(h.dir), "session-*"))
	if err != nil {
		h.t.Fatal(err)
	}
	return found
}

func (h *fixture) submitTo(thread, text string) (run string) {
	h.t.Helper()
	out, err := h.client().Submit(h.t.Context(), api.Submit{Thread: thread, Messages: []api.NewMessage{{Text: text}}})
	if err != nil {
		h.t.Fatal(err)
	}
	return out.Run
}

// wantReply waits for the end of a run.
func (h *fixture) wantReply(run, want string) {
	h.t.Helper()
	if r := h.waitRun(run); r.Reply == nil || *r.Reply != want {
		h.t.Fatalf("run %+v, want the reply %q", r, want)
	}
}

// TestASessionStaysOnItsServer sends the turns of a thread to the server that does not have its session.
// The one that has it restarts, and is then gone for good.
func TestASessionStaysOnItsServer(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "")
	program := filepath.Join(string(h.dir), "codex")
	if err := os.WriteFile(program, []byte(sessionProgram), 0o700); err != nil {
		t.Fatal(err)
	}
	h.configure(
		fmt.Sprintf(
			"isolation = \"none\"\ndefault_agent = \"codex\"\n[agents.codex]\nkind = \"codex\"\nprogram = %q\n[node]\nsticky_grace = \"1h\"\n", program))
	c := newNodes(h, 2)
	for _, n := range c.all {
		n.serve()
	}
	c.all[0].wantReply(c.all[0].submitTo("talk", "one"), "new, turn 1: one")
	has := slices.IndexFunc(c.all, func(n *fixture) bool { return len(n.sessions()) > 0 })
	if has < 0 {
		t.Fatal("no server has a session")
	}
	owner, other := c.all[has], c.all[1-has]
	lost := strings.TrimPrefix(filepath.Base(owner.sessions()[0]), "session-")
	for i, text := range []string{"two", "three"} {
		other.wantReply(other.submitTo("talk", text), fmt.Sprintf("resumed, turn %d: %s", i+2, text))
	}

	if err := owner.server.shutdown(); err != nil {
		t.Fatal(err)
	}
	run := other.submitTo("talk", "four")
	owner.serve()
	other.wantReply(run, "resumed, turn 4: four")
	owner.server.kill()
	run = other.submitTo("talk", "five")
	owner.serve()
	other.wantReply(run, "resumed, turn 5: five")
	if found := other.sessions(); len(found) > 0 {
		t.Fatalf("the other server has the sessions %q", found)
	}

	owner.server.kill()
	if err := other.server.shutdown(); err != nil {
		t.Fatal(err)
	}
	other.replaceInConfig(`sticky_grace = "1h"`, `sticky_grace = "500ms"`)
	other.serve()
	other.wantReply(other.submitTo("talk", "six"), "new with the transcript, turn 1: six")
	owner.serve()
	owner.wantReply(owner.submitTo("talk", "seven"), "resumed, turn 2: seven")
	page, err := owner.client().Entries(t.Context(), "talk",
		client.EntriesQuery{Limit: 500, Kinds: []string{exec.KindSession}})
	if err != nil {
		t.Fatal(err)
	}
	var last exec.Session
	for _, e := range page.Items {
		if err := e.Decode(&last); err != nil {
			t.Fatal(err)
		}
	}
	want := exec.Session{Program: "codex", Session: last.Session, Lost: lost, Why: "the program does not know the session",
		Messages: 10}
	if len(page.Items) != 2 || last != want || last.Session == lost {
		t.Errorf("%d sessions, the last %+v, want 2 and %+v", len(page.Items), last, want)
	}
}
