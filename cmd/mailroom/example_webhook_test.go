package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/api"
	"mailroom/channel/platformtest"
	"mailroom/internal/machinetest"
)

// buildExample builds an example that is a module of its own, and returns the program. The workspace and the variables
// are as in make, so that no package is compiled for the test alone.
func buildExample(t *testing.T, name string) string {
	t.Helper()
	workspace, err := filepath.Abs("../../modules.work")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir = filepath.Join("..", "..", "examples", name)
	cmd.Env = append(os.Environ(), "GOWORK="+workspace, "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	return program
}

// pipeline is the example of a webhook pipeline, with a server, in a folder of its own.
type pipeline struct {
	*fixture
	folder, program string
	env             []string
}

func newPipeline(t *testing.T) *pipeline {
	t.Helper()
	p := &pipeline{folder: t.TempDir(), program: buildExample(t, "webhook-pipeline")}
	p.fixture = newFixture(t, shortLeaseConfig+readExample(t, "webhook-pipeline/mailroom.toml"))
	receiver := machinetest.Reserve(t)
	code, output := p.addChannel("\n", "webhook", "--name", "shop", "--agent", "orders", "--url", "http://"+receiver,
		"--allow", "127.0.0.1")
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, output)
	}
	p.configure(readFile(t, p.dir.Config()) + retryQuickly)
	p.serve()
	p.waitChannel("shop", api.ChannelConnected)
	token, err := p.dir.Token()
	if err != nil {
		t.Fatal(err)
	}
	p.env = append(os.Environ(), "MAILROOM_URL="+p.server.url, "MAILROOM_TOKEN="+token, "LISTEN="+receiver,
		"HOOK_SECRET_FILE="+p.dir.ChannelSecret("shop", "token"))
	return p
}

func (p *pipeline) command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.program, args...)
	cmd.Dir, cmd.Env = p.folder, p.env
	return cmd
}

func (p *pipeline) start(name string) *process {
	p.t.Helper()
	return p.startProcess(p.command(name), p.env...)
}

// send posts an order twice.
func (p *pipeline) send(args ...string) {
	p.t.Helper()
	for range 2 {
		if out, err := p.command(append([]string{"send"}, args...)...).CombinedOutput(); err != nil {
			p.t.Fatalf("send %q: %v: %s", args, err, out)
		}
	}
}

// charged returns the charges.
func (p *pipeline) charged() []string {
	p.t.Helper()
	raw, err := os.ReadFile(filepath.Join(p.folder, "charges.jsonl"))
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	return strings.Fields(string(raw))
}

// TestTheExampleOfAWebhookPipelineChargesOnceAfterKills follows the README: it kills the worker between the charge and
// its record, then the server, and posts each order twice.
func TestTheExampleOfAWebhookPipelineChargesOnceAfterKills(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	results := p.start("receive")
	worker := p.start("work")
	p.waitWorker(worker)
	pause := filepath.Join(p.folder, "pause")
	if err := os.WriteFile(pause, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.send("7", "tiles", "3")
	platformtest.WaitFor(t, "a charge", func() bool { return len(p.charged()) == 1 })
	at := strings.TrimPrefix(p.server.url, "http://")
	worker.kill()
	p.server.kill()
	if err := os.Remove(pause); err != nil {
		t.Fatal(err)
	}
	p.process(p.server, "--listen", at)
	p.waitChannel("shop", api.ChannelConnected)
	p.waitWorker(p.start("work"))
	p.send("8", "gold", "1")
	p.send("9", "nails", "100")
	for _, want := range []string{`"cents":750`, `{"order":"8","refused":"\"1\" of \"gold\""}`, `"cents":500`} {
		if _, err := results.until(want); err != nil {
			t.Fatalf("no result with %s: %v: %s", want, err, results.output.all())
		}
	}
	if got := p.charged(); len(got) != 2 {
		t.Errorf("charged %q, want each order once", got)
	}
	if lines := strings.Count(results.output.all(), "\n"); lines != 3 {
		t.Errorf("the results are %s; want one for each order", results.output.all())
	}
}

func TestTheExampleOfAWebhookPipelineSignsWhatItPosts(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	other := filepath.Join(p.folder, "other")
	if err := os.WriteFile(other, []byte(platformtest.WebhookSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	forged := p.command("send", "10", "tiles", "1")
	forged.Env = append(forged.Env, "HOOK_SECRET_FILE="+other)
	if out, err := forged.CombinedOutput(); err == nil || !strings.Contains(string(out), "401") {
		t.Errorf("an order with a wrong signature: %v: %s", err, out)
	}
}
