package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/entry"
	"mailroom/internal/fakemodel"
)

// overnight is the example of an overnight agent, in a folder of its own.
type overnight struct {
	*fixture
	folder string
	env    []string
	server *process
	worker *process
}

func newOvernight(t *testing.T, env ...string) *overnight {
	t.Helper()
	o := &overnight{fixture: newFixture(t, shortLeaseConfig), folder: t.TempDir(), env: env}
	copyExample(t, "overnight", o.folder)
	o.startServer()
	return o
}

func (o *overnight) startServer() {
	o.t.Helper()
	var at []string
	if o.server != nil {
		at = []string{"--listen", strings.TrimPrefix(o.server.url, "http://")}
	}
	o.server = &process{}
	o.process(o.server, at...)
}

// work starts the worker as the README does, and waits until it is registered.
func (o *overnight) work() {
	o.t.Helper()
	token, err := o.dir.Token()
	if err != nil {
		o.t.Fatal(err)
	}
	packages, err := filepath.Abs("../../clients/python/src")
	if err != nil {
		o.t.Fatal(err)
	}
	cmd := exec.Command("python3", "overnight.py")
	cmd.Dir = o.folder
	env := []string{"PYTHONPATH=" + packages, "PYTHONDONTWRITEBYTECODE=1", "MAILROOM_URL=" + o.server.url,
		"MAILROOM_TOKEN=" + token}
	o.worker = o.startProcess(cmd, append(env, o.env...)...)
	o.waitWorker(o.worker)
}

// send sends a message to the agent as the README does, with few attempts, and returns its run.
func (o *overnight) send(thread, text string) string {
	o.t.Helper()
	var out bytes.Buffer
	code, stderr := o.run(o.t.Context(), &out, "send", "--thread", thread, "--agent", "overnight",
		"--max-attempts", "2", "--detach", "-o", "json", text)
	var sent api.Submitted
	if err := json.Unmarshal(out.Bytes(), &sent); code != exitDone || err != nil {
		o.t.Fatalf("send: exit code %d, %v: %s", code, err, stderr)
	}
	return sent.Run
}

// published returns the texts that the agent has published.
func (o *overnight) published() (texts []string) {
	o.t.Helper()
	files, err := filepath.Glob(filepath.Join(o.folder, "published", "*"))
	if err != nil {
		o.t.Fatal(err)
	}
	for _, name := range files {
		texts = append(texts, readFile(o.t, name))
	}
	return texts
}

// approve decides as the README does.
func (o *overnight) approve(thread string) {
	o.t.Helper()
	if code, stderr := o.run(o.t.Context(), io.Discard, "approve", thread); code != exitDone {
		o.t.Fatalf("approve: exit code %d: %s", code, stderr)
	}
}

// TestTheExampleOfAnOvernightAgentGoesOnAfterKills kills the worker while the model answers, and server and worker
// while the run waits for its approval. The model is asked again only for the answer that was cut.
func TestTheExampleOfAnOvernightAgentGoesOnAfterKills(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	defer close(hold)
	answers := []fakemodel.Answer{
		{Status: 429, RetryAfter: time.Second},
		{Text: []string{"I look."}, Calls: []fakemodel.Call{{ID: "a", Name: "list_notes", Input: map[string]any{}}}},
		{Text: []string{"I re"}, Hold: hold},
		{Calls: []fakemodel.Call{{ID: "b", Name: "read_note", Input: map[string]any{"text": "../overnight.py"}},
			{ID: "c", Name: "publish", Input: map[string]any{"text": "Two notes."}}}},
		fakemodel.Reply("All is ", "published."),
	}
	var mu sync.Mutex
	asked := 0
	model, err := fakemodel.Start(func(fakemodel.Request) fakemodel.Answer {
		mu.Lock()
		defer mu.Unlock()
		asked++
		return answers[min(asked, len(answers))-1]
	})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	o := newOvernight(t, "ANTHROPIC_API_KEY=no-key", "ANTHROPIC_BASE_URL="+model.URL)
	o.work()
	run := o.send("night", "Publish the notes.")
	if _, err := model.Wait(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	o.worker.kill()
	o.work()
	if err := awaitEntry(o.dir, "night", entry.KindWaiting); err != nil {
		t.Fatal(err)
	}
	if got := o.published(); len(got) != 0 {
		t.Errorf("published before the approval: %q", got)
	}
	o.server.kill()
	o.worker.kill()
	o.startServer()
	o.approve("night")
	o.work()
	r := o.waitRun(run)
	if r.Status != mailroom.StatusCompleted || r.Reply == nil || *r.Reply != "All is published." || r.Failures != 0 {
		t.Errorf("the run is %s with %d failures, reply %v, %v", r.Status, r.Failures, r.Reply, r.Error)
	}
	if got := o.published(); !slices.Equal(got, []string{"Two notes."}) {
		t.Errorf("published %q, want one text", got)
	}
	requests := model.Requests()
	if len(requests) != len(answers) || !requests[3].Contains("harbour.txt") || requests[3].Contains("I re") ||
		!requests[4].Contains(`There is no note '../overnight.py'.`) {
		t.Errorf("%d requests to the model, want %d: each answer once, but for the one that was cut", len(requests),
			len(answers))
	}
	if r.Usage.OutputTokens != 3*fakemodel.OutputTokens {
		t.Errorf("usage is %+v, want that of three whole answers", r.Usage)
	}
}

// TestTheExampleOfAnOvernightAgentRehearsesWithoutAModel runs the commands of the README, and takes the notes away.
func TestTheExampleOfAnOvernightAgentRehearsesWithoutAModel(t *testing.T) {
	t.Parallel()
	o := newOvernight(t, "ANTHROPIC_API_KEY=", "PAUSE=0")
	o.work()
	const text = "The harbour office wants the form by Friday.\nThe roof needs new tiles before winter."
	run := o.send("night", "Publish the first line of each note.")
	if err := awaitEntry(o.dir, "night", entry.KindWaiting); err != nil {
		t.Fatal(err)
	}
	o.approve("night")
	if r := o.waitRun(run); r.Reply == nil || *r.Reply != "I have read the notes. It is published." {
		t.Errorf("the run is %s, reply %v, %v", r.Status, r.Reply, r.Error)
	}
	if got := o.published(); !slices.Equal(got, []string{text}) {
		t.Errorf("published %q, want %q", got, text)
	}
	run = o.send("other", "Publish them again.")
	if err := awaitEntry(o.dir, "other", entry.KindWaiting); err != nil {
		t.Fatal(err)
	}
	if code, stderr := o.run(t.Context(), io.Discard, "deny", "other", "--reason", "Not today."); code != exitDone {
		t.Fatalf("deny: exit code %d: %s", code, stderr)
	}
	if r := o.waitRun(run); r.Reply == nil || *r.Reply != "I have read the notes. A person said no. Not today." {
		t.Errorf("the run is %s, reply %v, %v", r.Status, r.Reply, r.Error)
	}
	notes := filepath.Join(o.folder, "notes")
	if err := os.Rename(notes, notes+"-away"); err != nil {
		t.Fatal(err)
	}
	run = o.send("third", "Publish the first line of each note.")
	if r := o.waitRun(run); r.Status != mailroom.StatusFailed || r.Failures != 2 || r.Error == nil ||
		!strings.Contains(r.Error.Message, "notes") {
		t.Errorf("without notes the run is %s after %d failures: %v; want two", r.Status, r.Failures, r.Error)
	}
	if err := os.Rename(notes+"-away", notes); err != nil {
		t.Fatal(err)
	}
	if code, stderr := o.run(t.Context(), io.Discard, "run", "retry", run); code != exitDone {
		t.Fatalf("retry: exit code %d: %s", code, stderr)
	}
	if err := awaitEntry(o.dir, "third", entry.KindWaiting); err != nil {
		t.Fatal(err)
	}
	if got := o.published(); len(got) != 1 {
		t.Errorf("published %q, want what was approved", got)
	}
}
