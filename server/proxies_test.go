package server_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"mailroom/server"
	"mailroom/store"
)

// TestAProxyThatCompressesHoldsNoEventBack reads streams through the real Caddy and nginx, which compress what a
// browser asks for. Each event is read before the next one is caused.
func TestAProxyThatCompressesHoldsNoEventBack(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, dir, socket, upstream string) *exec.Cmd{"caddy": caddy,
		"nginx": nginx, "caddy of deploy": caddyExample, "nginx of deploy": nginxExample} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// a comment would push out what is held back
			f := start(t, func(o *server.Options) { o.Limits.Heartbeat = time.Hour })
			var last store.Submitted
			for range 10 {
				last = f.submit("t", "one more line of text, because short answers are not compressed")
			}
			behind := f.behind(run)
			behind.open(http.StatusSwitchingProtocols, "/v1/ws", "Connection: Upgrade", "Upgrade: websocket",
				"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
			large := fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 1<<20))
			if a := behind.call("POST /v1/threads/large/messages", large); a.status/100 != 2 {
				t.Errorf("a message of a MiB: %d %s", a.status, a.body[:min(len(a.body), 300)])
			}
			for _, accept := range []string{"gzip", "zstd", "gzip, deflate, br, zstd"} {
				stream := behind.open(http.StatusOK, "/v1/threads/t/stream", "Accept-Encoding: "+accept)
				all := behind.open(http.StatusOK, "/v1/stream", "Accept-Encoding: "+accept)
				all.moved()
				stream.until(last.Seq)
				for range 5 {
					last = f.submit("t", "a further line")
					stream.until(last.Seq)
					for what := ""; what != fmt.Sprintf("t %d message", last.Seq); {
						what, _ = all.nextOfAll()
					}
				}
			}
		})
	}
}

// until reads up to the entry with a seq.
func (r *reader) until(seq int64) {
	r.t.Helper()
	for !strings.HasPrefix(r.event(), fmt.Sprintf("entry %d ", seq)) {
	}
}

// behind returns the fixture as a client sees it behind a proxy.
func (f *fixture) behind(run func(t *testing.T, dir, socket, upstream string) *exec.Cmd) *fixture {
	f.t.Helper()
	dir, err := os.MkdirTemp("", "proxy") // the path of a socket is short
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	log := &strings.Builder{}
	cmd := run(f.t, dir, socket, strings.TrimPrefix(f.url, "http://"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	if err := cmd.Start(); err != nil {
		f.t.Fatalf("these tests need Caddy and nginx: run make programs: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	f.t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = cmd.Process.Kill() // it has ended already if this fails
		<-ended
	})
	for end := time.After(5 * time.Minute); ; {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
			break
		}
		select {
		case err := <-ended:
			ended <- err
			f.t.Fatalf("the proxy ended: %v: %s", err, log)
		case <-end:
			f.t.Fatalf("the proxy does not listen: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	behind := *f
	behind.http = transport
	return &behind
}

// guide returns what docs/guides/behind-a-proxy.md tells the user of a proxy to write, for a server at upstream.
func guide(t *testing.T, proxy, upstream string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/guides/behind-a-proxy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(page), fmt.Sprintf(" title=%q\n", proxy))
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed || !strings.Contains(block, "127.0.0.1:8420") {
		t.Fatalf("the page has no block for %s", proxy)
	}
	return strings.ReplaceAll(block, "127.0.0.1:8420", upstream)
}

func caddy(t *testing.T, dir, socket, upstream string) *exec.Cmd {
	return runCaddy(t, dir, strings.Replace(guide(t, "Caddy", upstream), "mail.example.org {",
		"http:// {\n\tbind unix/"+socket+"\n\tencode zstd gzip", 1))
}

// caddyExample and nginxExample run the files of the folder deploy, without TLS on a socket.
func caddyExample(t *testing.T, dir, socket, upstream string) *exec.Cmd {
	return runCaddy(t, dir, example(t, "caddy/Caddyfile",
		"{$MAILROOM_HOST:mail.example.org} {", "http:// {\n\tbind unix/"+socket,
		"{$MAILROOM_UPSTREAM:127.0.0.1:8420}", upstream))
}

func nginxExample(t *testing.T, dir, socket, upstream string) *exec.Cmd {
	return runNginx(t, dir, example(t, "nginx/mailroom.conf", "listen 443 ssl;", "listen unix:"+socket+";",
		"ssl_certificate /etc/nginx/mailroom.crt;", "", "ssl_certificate_key /etc/nginx/mailroom.key;", "",
		"http://127.0.0.1:8420;", "http://"+upstream+";"))
}

// example returns a file of the folder deploy, with texts replaced that must be there.
func example(t *testing.T, name string, replace ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("%s has no %q", name, replace[i])
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	return text
}

func runCaddy(t *testing.T, dir, site string) *exec.Cmd {
	config := write(t, dir, "Caddyfile", "{\n\tadmin off\n}\n"+site)
	return exec.CommandContext(t.Context(), "caddy", "run", "--adapter", "caddyfile", "--config", config)
}

func nginx(t *testing.T, dir, socket, upstream string) *exec.Cmd {
	site := strings.Replace(guide(t, "nginx", upstream), "listen 443 ssl;", "listen unix:"+socket+";", 1)
	return runNginx(t, dir, regexp.MustCompile(`(?m)^\tssl_certificate.*\n`).ReplaceAllString(site, ""))
}

func runNginx(t *testing.T, dir, site string) *exec.Cmd {
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx"
	}
	temp := ""
	for _, of := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += fmt.Sprintf("\t%s_temp_path %s;\n", of, filepath.Join(dir, of))
	}
	config := write(t, dir, "nginx.conf", fmt.Sprintf(`daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr;
events {}
http {
	access_log off;
%[2]s	gzip on;
	gzip_proxied any;
	gzip_min_length 0;
	gzip_types text/event-stream application/json;
%[3]s}
`, dir, temp, site))
	return exec.CommandContext(t.Context(), program, "-p", dir, "-c", config, "-e", "stderr")
}

func write(t *testing.T, dir, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
