package main

import (
	"bytes"
	"encoding/base64"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"mailroom/channel/webhook/webhooktest"
)

// TestAnAddedWebhookWorksWithThePrintedExample follows a new user.
func TestAnAddedWebhookWorksWithThePrintedExample(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "# mine\n[agents.echo]\npace = \"0s\"")
	r := webhooktest.NewReceiver(t)
	add := func(more ...string) (int, string) {
		var talk bytes.Buffer
		m := Main{Stdin: strings.NewReader("\n"), Stdout: io.Discard, Stderr: &talk, Env: h.env}
		code := m.Run(t.Context(), append([]string{"channels", "add", "webhook"}, more...))
		return code, talk.String()
	}
	short := t.TempDir() + "/short"
	if err := os.WriteFile(short, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		more []string
		want string
	}{
		"no such agent":  {[]string{"--agent", "missing"}, `unknown agent "missing"`},
		"this machine":   {[]string{"--url", r.URL}, "127.0.0.1 is a loopback address; to allow it, add it to allow"},
		"without TLS":    {[]string{"--url", "http://example.org/"}, "it is not https"},
		"no address":     {[]string{"--url", "example.org"}, "it is not a URL"},
		"no network":     {[]string{"--allow", "ten"}, `"ten" is neither an address`},
		"a short secret": {[]string{"--token-file", short}, "the secret has 4 bytes, but at least 24 are required: nothing was written"},
		"a missing file": {[]string{"--token-file", "none"}, "no such file"},
		"a strange name": {[]string{"--name", "a b"}, "use 1 to 64 letters"},
	} {
		if code, talk := add(c.more...); code != exitUsage || !strings.Contains(talk, c.want) {
			t.Errorf("%s: exit code %d, %s; want %q", name, code, talk, c.want)
		}
	}
	if files, err := os.ReadDir(string(h.dir)); err != nil || len(files) != 2 { // mailroom.toml, gate
		t.Errorf("what was refused has left %v, %v", files, err)
	}
	server := &process{} // its address is known by then
	h.process(server)
	code, talk := add("--name", "ops", "--url", r.URL+"/take", "--allow", "127.0.0.1")
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, talk)
	}
	t.Logf("\n%s", talk)
	secret, err := os.ReadFile(h.dir.ChannelSecret("ops", "token"))
	if info, err2 := os.Stat(h.dir.ChannelSecret("ops", "token")); err != nil || err2 != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the secret is kept as %v, %v, %v", info, err, err2)
	}
	if strings.Contains(talk, strings.TrimSpace(string(secret))) || !strings.HasPrefix(string(secret), "whsec_") {
		t.Errorf("it tells the secret: %s", talk)
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
			t.Fatalf("the printed example needs %s: install it (see make programs): %v", program, err)
		}
	}
	for n, talk := range []string{talk, more} {
		runPrintedExample(t, talk, before, server.url)
		r.WaitFor(t, "the answer", func() bool { return len(r.Texts()) == n+1 })
		if p := r.Posts()[n].Body; p.Text != "hello" || p.Room != "test" {
			t.Errorf("the answer is %+v", p)
		}
	}
}

// runPrintedExample runs the script that is in a talk, at another server.
func runPrintedExample(t *testing.T, talk, before, now string) {
	t.Helper()
	_, script, found := strings.Cut(talk, "body=")
	if !found || !strings.Contains(script, before) {
		t.Fatalf("what is printed is not for %s: %s", before, talk)
	}
	out, err := exec.Command("sh", "-ec", "body="+strings.ReplaceAll(script, before, now)).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), `{"message":"try-`) {
		t.Fatalf("what is printed, run: %s, %v", out, err)
	}
}
