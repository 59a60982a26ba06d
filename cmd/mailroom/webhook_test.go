package main

import (
	"bytes"
	"encoding/base64"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"mailroom/api"
	"mailroom/channel/platformtest"
)

// TestAnAddedWebhookWorksWithThePrintedExample adds a channel and runs the example that the command prints.
func TestAnAddedWebhookWorksWithThePrintedExample(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "# mine\n[agents.echo]\npace = \"0s\"")
	r := platformtest.NewWebhookReceiver(t)
	add := func(more ...string) (int, string) {
		var output bytes.Buffer
		m := Main{Stdin: strings.NewReader("\n"), Stdout: io.Discard, Stderr: &output, Env: h.env}
		code := m.Run(t.Context(), append([]string{"channels", "add", "webhook"}, more...))
		return code, output.String()
	}
	short := t.TempDir() + "/short"
	if err := os.WriteFile(short, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		more []string
		want string
	}{
		"no such agent":   {[]string{"--agent", "missing"}, `unknown agent "missing"`},
		"this machine":    {[]string{"--url", r.URL}, "127.0.0.1 is a loopback address; to use it, add it to the setting allow"},
		"without TLS":     {[]string{"--url", "http://example.org/"}, "it is not https"},
		"no address":      {[]string{"--url", "example.org"}, "it is not a URL"},
		"no network":      {[]string{"--allow", "ten"}, `"ten" is neither an address`},
		"a short secret":  {[]string{"--token-file", short}, "the secret has 4 bytes, but at least 24 are required: nothing was written"},
		"a missing file":  {[]string{"--token-file", "none"}, "no such file"},
		"an invalid name": {[]string{"--name", "a b"}, "use 1 to 64 letters"},
	} {
		if code, output := add(c.more...); code != exitUsage || !strings.Contains(output, c.want) {
			t.Errorf("%s: exit code %d, %s; want %q", name, code, output, c.want)
		}
	}
	if files, err := os.ReadDir(string(h.dir)); err != nil || len(files) != 2 { // mailroom.toml, gate
		t.Errorf("refused commands left the files %v, %v", files, err)
	}
	server := &process{} // the command prints its address
	h.process(server)
	code, output := add("--name", "ops", "--url", r.URL+"/take", "--allow", "127.0.0.1")
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, output)
	}
	t.Logf("\n%s", output)
	secret, err := os.ReadFile(h.dir.ChannelSecret("ops", "token"))
	if info, err2 := os.Stat(h.dir.ChannelSecret("ops", "token")); err != nil || err2 != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file of the secret is %v, %v, %v; want mode 0600", info, err, err2)
	}
	if strings.Contains(output, strings.TrimSpace(string(secret))) || !strings.HasPrefix(string(secret), "whsec_") {
		t.Errorf("the output contains the secret: %s", output)
	}
	raw := t.TempDir() + "/raw"
	if err := os.WriteFile(raw, []byte("a-secret+as/it-is%d-and-long\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, more := add("--name", "raw", "--url", r.URL, "--allow", "127.0.0.0/8", "--token-file", raw)
	if code != exitDone || strings.Contains(more, "it-is") {
		t.Fatalf("exit code %d: %s", code, more)
	}
	before := server.url
	server.kill()
	h.process(server)
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(string(secret)), "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	r.AcceptKeys(string(key), "a-secret+as/it-is%d-and-long")
	for _, program := range []string{"openssl", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("the printed example needs %s: run make programs: %v", program, err)
		}
	}
	h.server = server
	h.waitChannel("ops", api.ChannelConnected)
	h.waitChannel("raw", api.ChannelConnected)
	for n, output := range []string{output, more} {
		runPrintedExample(t, output, before, server.url)
		r.WaitFor(t, "the reply", func() bool { return len(r.Texts()) == n+1 })
		if p := r.Posts()[n].Body; p.Text != "hello" || p.Room != "test" {
			t.Errorf("the reply is %+v", p)
		}
	}
}

// runPrintedExample runs the script in the output of the command, with another server's URL.
func runPrintedExample(t *testing.T, output, before, now string) {
	t.Helper()
	_, script, found := strings.Cut(output, "body=")
	if !found || !strings.Contains(script, before) {
		t.Fatalf("the output has no script for %s: %s", before, output)
	}
	out, err := exec.Command("sh", "-ec", "body="+strings.ReplaceAll(script, before, now)).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), `{"message":"try-`) {
		t.Fatalf("the printed script: %s, %v", out, err)
	}
}
