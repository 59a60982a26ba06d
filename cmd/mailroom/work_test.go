package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	agent "mailroom/agent/exec"
	"mailroom/api"
	"mailroom/client"
	"mailroom/entry"
	"mailroom/store"
)

// shortLeaseConfig makes the server detect a lost worker soon.
const shortLeaseConfig = "lease = \"2s\"\nrenew = \"500ms\"\nsweep = \"100ms\"\n"

// startWorker starts mailroom work for the agent "far" in its own process. The agent's command runs in
// the data folder, where the gate is.
func (h *fixture) startWorker(command ...string) *process {
	h.t.Helper()
	cmd := exec.Command("mailroom", append([]string{"work", "--agent", "far", "--"}, command...)...)
	cmd.Dir = string(h.dir)
	w := h.startProcess(cmd, "MAILROOM_DATA="+string(h.dir))
	if _, err := w.until("worker registered"); err != nil {
		h.t.Fatal(err)
	}
	return w
}

// startProcess starts a process and kills it at the end of the test.
func (h *fixture) startProcess(cmd *exec.Cmd, env ...string) *process {
	h.t.Helper()
	w := &process{output: &transcript{log: io.Discard, grown: make(chan struct{}, 1)}, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr, cmd.Env = w.output, w.output, append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	w.cmd = cmd
	go func() { // ends with the process; shutdown and kill wait for it
		w.exit = cmd.Wait()
		close(w.exited)
	}()
	h.t.Cleanup(func() {
		w.kill()
		if h.t.Failed() {
			h.t.Logf("output of a worker:\n%s", w.output.all())
		}
	})
	return w
}

// startRun sends a message to the agent "far" and returns the run once its thread has an entry of the
// kind seen, or a delta.
func (h *fixture) startRun(text, seen string) (run string) {
	h.t.Helper()
	return h.startRunIn("t", text, seen)
}

func (h *fixture) startRunIn(thread, text, seen string) (run string) {
	h.t.Helper()
	return h.startRunOf("far", thread, text, seen)
}

func (h *fixture) startRunOf(agent, thread, text, seen string) (run string) {
	h.t.Helper()
	var out bytes.Buffer
	code, stderr := h.run(h.t.Context(), &out, "send", "--thread", thread, "--agent", agent, "--detach", "-o",
		"json", text)
	var sent store.Submitted
	if err := json.Unmarshal(out.Bytes(), &sent); code != exitDone || err != nil {
		h.t.Fatalf("send: exit code %d, %v: %s", code, err, stderr)
	}
	if err := awaitEntry(h.dir, thread, seen); err != nil {
		h.t.Fatal(err)
	}
	return sent.Run
}

func (h *fixture) openGate(text string) {
	h.t.Helper()
	if err := openGate(filepath.Join(string(h.dir), "gate"), text); err != nil {
		h.t.Fatal(err)
	}
}

// waitRun waits for the end of a run and returns it.
func (h *fixture) waitRun(run string) api.Run {
	h.t.Helper()
	r, err := h.client().WaitRun(h.t.Context(), run, waitTimeout)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func (h *fixture) client() *client.Client {
	h.t.Helper()
	at, err := h.dir.Address()
	if err != nil {
		h.t.Fatal(err)
	}
	token, err := h.dir.Token()
	if err != nil {
		h.t.Fatal(err)
	}
	return client.New(at.URL, token)
}

// entryKinds returns the log of thread t, one line per entry.
func (h *fixture) entryKinds() []string {
	h.t.Helper()
	page, err := h.client().Entries(h.t.Context(), "t", client.EntriesQuery{Limit: 500})
	if err != nil {
		h.t.Fatal(err)
	}
	var lines []string
	for _, e := range page.Items {
		var m struct {
			Role    string
			Text    string
			Partial bool
		}
		if err := e.Decode(&m); err != nil {
			h.t.Fatal(err)
		}
		line := e.Kind
		if e.Kind == entry.KindMessage {
			line += " " + m.Text
		}
		if m.Partial {
			line += " (partial)"
		}
		if strings.HasPrefix(e.Kind, "x.") {
			continue // an internal entry of agent/exec
		}
		lines = append(lines, line)
	}
	return lines
}

func TestARunOfARemoteWorkerSurvivesAKillOfTheServer(t *testing.T) {
	h := newFixture(t, "")
	p := &process{}
	h.process(p)
	at := strings.TrimPrefix(p.url, "http://")
	h.startWorker("sh", "-c", "cat; cat gate; cat gate")
	run := h.startRun("one two", "delta")
	p.kill()
	h.openGate(", three") // the command writes it while no server runs
	h.process(p, "--listen", at)
	h.openGate(", four")
	r := h.waitRun(run)
	if r.Status != mailroom.StatusCompleted || r.Attempt != 1 || r.Reply == nil || *r.Reply != "one two, three, four" {
		t.Errorf("run is %s, attempt %d, reply %v; want completed, 1 and the whole text", r.Status, r.Attempt, r.Reply)
	}
	want := []string{"message one two", "run.queued", "run.started", "message one two, three, four", "run.completed"}
	if diff := cmp.Diff(want, h.entryKinds()); diff != "" {
		t.Error(diff)
	}
}

func TestARemoteWorkerThatSleptIsFenced(t *testing.T) {
	h := newFixture(t, "log_level = \"debug\"\n"+shortLeaseConfig) // requests are logged
	p := &process{}
	h.process(p)
	first := h.startWorker("cat", "gate")
	run := h.startRun("one", agent.KindStarted)
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	h.startWorker("sh", "-c", "cat; echo , again")
	r := h.waitRun(run)
	if r.Status != mailroom.StatusCompleted || r.Attempt != 2 || r.Reply == nil || *r.Reply != "one, again\n" {
		t.Errorf("run is %s, attempt %d, reply %v; want completed, 2 and the reply of the second worker", r.Status,
			r.Attempt, r.Reply)
	}
	kinds := h.entryKinds()
	want := []string{
		"message one", "run.queued", "run.started", "run.rescheduled",
		"run.started", "message one, again\n", "run.completed",
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}

	// The second attempt has killed the processes of the first one. The first worker continues, sees that
	// its command has ended, and tries to settle.
	if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := first.until("attempt ended without its claim"); err != nil {
		t.Error(err)
	}
	if line, err := p.until("/settle status=409"); err != nil || !strings.Contains(line, "code=lease_lost") {
		t.Errorf("log line %q (%v), want lease_lost", line, err)
	}
	if diff := cmp.Diff(kinds, h.entryKinds()); diff != "" {
		t.Errorf("the worker without its claim changed the log: %s", diff)
	}
	if r := h.waitRun(run); *r.Reply != "one, again\n" {
		t.Errorf("reply %q, want it unchanged", *r.Reply)
	}
}

func TestAStopReachesASilentCommandOfARemoteWorker(t *testing.T) {
	h := newFixture(t, shortLeaseConfig)
	h.process(&process{})
	w := h.startWorker("sh", "-c", "cat; cat gate")
	run := h.startRun("so far", "delta")
	if code, stderr := h.run(t.Context(), io.Discard, "run", "cancel", run); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if r := h.waitRun(run); r.Status != mailroom.StatusCancelled || r.Attempt != 1 {
		t.Errorf("run is %s, attempt %d; want cancelled, 1", r.Status, r.Attempt)
	}
	want := []string{"message so far", "run.queued", "run.started", "run.stop_requested", "message so far (partial)",
		"run.cancelled"}
	if diff := cmp.Diff(want, h.entryKinds()); diff != "" {
		t.Error(diff)
	}
	if err := w.shutdown(); err != nil {
		t.Errorf("shutdown of the worker: %v", err)
	}
}

func TestARemoteWorkerReleasesItsRunsAtShutdown(t *testing.T) {
	h := newFixture(t, "")
	h.process(&process{})
	w := h.startWorker("cat")
	run := h.startRun("hello", agent.KindStarted)
	if r := h.waitRun(run); r.Status != mailroom.StatusCompleted {
		t.Errorf("run is %s, want completed", r.Status)
	}
	if err := w.shutdown(); err != nil {
		t.Errorf("shutdown of the worker: %v", err)
	}
	workers, err := h.client().Workers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, live := range workers {
		if cmp.Equal(live.Agents, []string{"far"}) {
			t.Errorf("worker %s still has its lease", live.ID)
		}
	}
	// The agent stays known for a day: its runs wait.
	if code, stderr := h.run(t.Context(), io.Discard, "send", "--thread", "t", "--agent", "far", "--detach",
		"more"); code != exitDone {
		t.Errorf("send to an agent without a worker: exit code %d: %s", code, stderr)
	}
}

// TestAWorkerInAnotherLanguage runs examples/worker/worker.mjs.
func TestAWorkerInAnotherLanguage(t *testing.T) {
	h := newFixture(t, "")
	p := &process{}
	h.process(p)
	token, err := h.dir.Token()
	if err != nil {
		t.Fatal(err)
	}
	w := h.startProcess(exec.Command("node", "../../examples/worker/worker.mjs"), "MAILROOM_URL="+p.url,
		"MAILROOM_TOKEN="+token)
	if _, err := w.until("serving js"); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code, stderr := h.run(t.Context(), &out, "send", "--thread", "t", "--agent", "js", "hello"); code != exitWaiting ||
		!strings.Contains(out.String(), "You said hello.") {
		t.Fatalf("send: exit code %d, %q: %s", code, out.String(), stderr)
	}
	if code, stderr := h.run(t.Context(), io.Discard, "approve", "t"); code != exitDone {
		t.Fatalf("approve: exit code %d: %s", code, stderr)
	}
	out.Reset()
	if code, stderr := h.run(t.Context(), &out, "attach", "t"); code != exitDone ||
		!strings.Contains(out.String(), "HELLO") {
		t.Errorf("attach: exit code %d, %q: %s", code, out.String(), stderr)
	}
	want := []string{
		"message hello", "run.queued", "run.started", "step", "message You said hello.", "ticket.opened", "run.waiting",
		"ticket.decided", "run.resumed", "message HELLO", "run.completed",
	}
	if diff := cmp.Diff(want, h.entryKinds()); diff != "" {
		t.Error(diff)
	}
}

// TestAWorkerInAnotherLanguageEndsAnOverdueAttempt has examples/worker/worker.mjs write for longer than run_deadline.
// The worker says so itself, before the server takes the claim away.
func TestAWorkerInAnotherLanguageEndsAnOverdueAttempt(t *testing.T) {
	h := newFixture(t, "run_deadline = \"2s\"\n")
	p := &process{}
	h.process(p)
	token, err := h.dir.Token()
	if err != nil {
		t.Fatal(err)
	}
	worker := exec.Command("node", "../../examples/worker/worker.mjs")
	w := h.startProcess(worker, "MAILROOM_URL="+p.url, "MAILROOM_TOKEN="+token)
	if _, err := w.until("serving js"); err != nil {
		t.Fatal(err)
	}
	h.startRunOf("js", "t", strings.Repeat("word ", 1000), entry.KindRescheduled)
	page, err := h.client().Entries(t.Context(), "t", client.EntriesQuery{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Items {
		if e.Kind == entry.KindRescheduled {
			if !strings.Contains(string(e.Body), "the attempt took longer than ") {
				t.Errorf("the attempt ended with %s", e.Body)
			}
			return
		}
	}
	t.Errorf("no attempt has failed: %q", h.entryKinds())
}

func TestTwoRemoteWorkersShareTheRuns(t *testing.T) {
	h := newFixture(t, "")
	h.process(&process{})
	command := []string{"sh", "-c", "cat; cat gate"}
	h.startWorker(command...)
	h.startWorker(command...)
	var runs []string
	for _, thread := range []string{"t", "u"} {
		runs = append(runs, h.startRunIn(thread, thread, agent.KindStarted))
	}
	holders := map[string]bool{}
	for _, id := range runs {
		r, err := h.client().Run(t.Context(), id)
		if err != nil || r.Worker == nil {
			t.Fatalf("run %s has no worker: %v", id, err)
		}
		holders[*r.Worker] = true
	}
	if len(holders) != 2 {
		t.Errorf("two runs are at %d workers, want one at each", len(holders))
	}
	for _, id := range runs { // both commands wait for the same gate, so cancel instead of opening it
		if code, stderr := h.run(t.Context(), io.Discard, "run", "cancel", id); code != exitDone {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
	}
	for _, id := range runs {
		if r := h.waitRun(id); r.Status != mailroom.StatusCancelled || r.Attempt != 1 {
			t.Errorf("run %s is %s, attempt %d; want cancelled, 1", id, r.Status, r.Attempt)
		}
	}
}

func TestWorkExplainsWhyItCannotStart(t *testing.T) {
	h := newFixture(t, "")
	p := &process{}
	h.process(p)
	var made bytes.Buffer
	if code, stderr := h.run(t.Context(), &made, "token", "create", "reader", "--scope", "read"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	secret := filepath.Join(string(h.dir), "secret")
	if err := os.WriteFile(secret, made.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--agent", "echo", "--", "cat"}, exitUsage, `agent "echo" is run by this server`},
		{[]string{"--agent", "a b", "--", "cat"}, exitUsage, "letters, digits"},
		{[]string{"--", "cat"}, exitUsage, "--agent"},
		{[]string{"--agent", "far"}, exitUsage, "missing command"},
		{[]string{"--agent", "far", "--profile", "cody"}, exitUsage, "use claude, codex"},
		{[]string{"--agent", "far", "--permissions", "read", "--", "cat"}, exitUsage, "--profile"},
		{[]string{"--agent", "far", "--runs", "0", "--", "cat"}, exitUsage, "--runs"},
		{[]string{"--agent", "far", "--url", "example.org", "--", "cat"}, exitUsage, "--url"},
		{[]string{"--agent", "far", "--url", p.url, "--", "cat"}, exitServer, "MAILROOM_TOKEN"},
		{[]string{"--agent", "far", "--token-file", secret, "--", "cat"}, exitServer, "scope work"},
	} {
		code, stderr := h.run(t.Context(), io.Discard, append([]string{"work"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d, %s; want %d and %q", c.args, code, stderr, c.code, c.want)
		}
	}
}
