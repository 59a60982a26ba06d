package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom/issues/tracker"
)

// bdClone is a user's clone of a tracker. Its commands run bd in child processes.
type bdClone struct {
	t         *testing.T
	name, dir string
	env       []string
}

func newBdClone(t *testing.T, name, url, token string) *bdClone {
	t.Helper()
	c := &bdClone{t: t, name: name, dir: t.TempDir()}
	c.env = append(os.Environ(), "BD_ACTOR="+name, "BEADS_AGENT_NAME="+name, "AGENT_MAIL_URL="+url,
		"AGENT_MAIL_TOKEN="+token,
		"AGENT_MAIL_TIMEOUT=60", "GORACE=atexit_sleep_ms=0")
	if err := tracker.FolderAt(filepath.Join(c.dir, ".beads")).Init(); err != nil {
		t.Fatal(err)
	}
	c.write("issues.jsonl",
		`{"id":"x-1","title":"Fix the roof","status":"open","created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z"}`+"\n")
	return c
}

func (c *bdClone) bd(args ...string) (code int, output string) {
	c.t.Helper()
	var out bytes.Buffer
	cmd := exec.Command("bd", args...)
	cmd.Dir, cmd.Env, cmd.Stderr = c.dir, c.env, &out
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		c.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// must runs a command that must succeed without a warning.
func (c *bdClone) must(args ...string) {
	c.t.Helper()
	if code, output := c.bd(args...); code != 0 || output != "" {
		c.t.Fatalf("%s: bd %v: exit code %d, %s", c.name, args, code, output)
	}
}

func (c *bdClone) read(name string) string {
	c.t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.dir, ".beads", name))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(raw)
}

func (c *bdClone) write(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, ".beads", name), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// readInbox returns an agent's notifications over the agent mail protocol.
func readInbox(t *testing.T, url, token, agent string) (found []string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/notifications/"+agent, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() // the body has been read
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		From, Event string
		Data        map[string]string
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	for _, n := range list {
		found = append(found, n.From+" "+n.Event+" "+n.Data["id"])
	}
	return found
}

func TestAgentsInClonesShareIssuesThroughTheServerAndItsKill(t *testing.T) {
	h := newFixture(t, "")
	var first process
	h.process(&first)
	url := first.url
	token, err := h.dir.Token()
	if err != nil {
		t.Fatal(err)
	}
	ann, bob := newBdClone(t, "ann", url, token), newBdClone(t, "bob", url, token)
	for _, c := range []*bdClone{ann, bob} {
		readInbox(t, url, token, c.name) // creates the inbox
	}

	// Both agents claim the issue concurrently.
	var group sync.WaitGroup
	var codes [2]int
	var outputs [2]string
	for i, c := range []*bdClone{ann, bob} {
		group.Go(func() { codes[i], outputs[i] = c.bd("update", "x-1", "--claim") })
	}
	group.Wait()
	winner, loser, refusal := ann, bob, outputs[1]
	if codes[1] == 0 {
		winner, loser, refusal = bob, ann, outputs[0]
	}
	if codes[0]+codes[1] != 1 {
		t.Fatalf("exit codes %v, want one 0 and one 1: %q", codes, outputs)
	}
	words := regexp.MustCompile(`^Error: x-1 is reserved by ` + winner.name +
		` until (\S+) \(.*\)\n$`).FindStringSubmatch(refusal)
	if words == nil {
		t.Fatalf("output of the loser %q, want the holder and the end of the reservation", refusal)
	}
	until, err := time.Parse(time.RFC3339, words[1])
	if left := time.Until(until); err != nil || left < 50*time.Minute || left > time.Hour {
		t.Errorf("x-1 is reserved until %s, %v; want an hour from now", words[1], err)
	}
	if !strings.Contains(loser.read("issues.jsonl"), `"open"`) {
		t.Errorf("the loser changed its file: %s", loser.read("issues.jsonl"))
	}

	// Commands work without the server.
	first.kill()
	code, output := winner.bd("close", "x-1", "--reason", "done")
	if code != 0 || strings.Count(output, "\n") != 1 || !strings.HasPrefix(output, "Warning: agent mail at "+url+
		" cannot be reached (connection refused)") {
		t.Errorf("close without the server: exit code %d, %q", code, output)
	}
	var second process
	h.process(&second, "--listen", strings.TrimPrefix(url, "http://"))
	silence := regexp.MustCompile(`("silence": \{\s*"until": )"[^"]*"`)
	kept := silence.ReplaceAllString(winner.read("mail.json"), `$1"2001-01-01T00:00:00Z"`)
	winner.write("mail.json", kept) // the backoff has ended
	winner.must("create", "something else")
	winner.write("mail.json", kept) // as after a kill between the send and its record
	winner.must("create", "and more")
	if after := winner.read("mail.json"); strings.Contains(after, `"kept"`) {
		t.Errorf("the queue is not empty: %s", after)
	}
	loser.must("update", "x-1", "--claim")
	want := []string{winner.name + " issue.claimed x-1", winner.name + " issue.closed x-1"}
	if diff := cmp.Diff(want, readInbox(t, url, token, loser.name)); diff != "" {
		t.Errorf("%s's inbox (-want +got):\n%s", loser.name, diff)
	}
}
