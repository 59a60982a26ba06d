package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/app/endpoint"
	"mailroom/client"
)

// writeCertificate writes a self-signed certificate and its key into the data folder.
func (h *fixture) writeCertificate(serial int64, names ...string) (cert, key string) {
	h.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	h.must(err)
	signed, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "mailroom test"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}, &x509.Certificate{SerialNumber: big.NewInt(serial)}, private.Public(), private)
	h.must(err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	h.must(err)
	cert, key = filepath.Join(string(h.dir), "cert.pem"), filepath.Join(string(h.dir), "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: signed},
		key: {Type: "PRIVATE KEY", Bytes: encoded}} {
		h.must(os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
		// Each certificate has another modification time, even if the clock of the disk is coarse.
		h.must(os.Chtimes(path, time.Time{}, time.Now().Add(time.Duration(serial)*time.Second)))
	}
	return cert, key
}

// newTLSFixture returns a fixture whose server uses TLS.
func newTLSFixture(t *testing.T, settings string, names ...string) *fixture {
	h := newFixture(t, "")
	cert, key := h.writeCertificate(1, names...)
	text := "tls_cert = '" + cert + "'\ntls_key = '" + key + "'\n" + settings
	h.must(os.WriteFile(h.dir.Config(), []byte(text), 0o600))
	return h
}

func TestAServerSpeaksHTTPSAndReloadsARenewedCertificate(t *testing.T) {
	h, p := newTLSFixture(t, "[limits]\nbody_timeout = \"200ms\""), &process{}
	h.process(p, "--listen", "127.0.0.1:0")
	if at, err := h.dir.Address(); err != nil || at.URL != p.url || !strings.HasPrefix(p.url, "https://127.0.0.1:") {
		t.Fatalf("the server listens on %s, server.json has %+v (%v)", p.url, at, err)
	}
	send := func(text string) {
		t.Helper()
		var out bytes.Buffer
		if code, stderr := h.run(t.Context(), &out, "send", "--thread", "t", text); code != exitDone ||
			out.String() != text+"\n" {
			t.Errorf("send: exit code %d, %q, %s", code, out.String(), stderr)
		}
	}
	send("over TLS")

	insecureClient := func() *http.Client {
		web := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		t.Cleanup(web.CloseIdleConnections)
		return web
	}
	wantCertificate := func(when string, want int64) { // on a new connection
		t.Helper()
		resp, _ := p.request(t, insecureClient(), "GET", "/healthz", "")
		if got := resp.TLS.PeerCertificates[0].SerialNumber.Int64(); resp.Proto != "HTTP/2.0" || got != want {
			t.Errorf("%s: %s with certificate %d, want HTTP/2.0 with %d", when, resp.Proto, got, want)
		}
	}
	wantCertificate("at first", 1)
	insecure := insecureClient()
	body, keepOpen := io.Pipe()
	defer keepOpen.Close()
	slow, err := http.NewRequestWithContext(t.Context(), "POST", p.url+"/v1/messages", body)
	h.must(err)
	slow.Header.Set("Authorization", strings.TrimPrefix(h.authorization(), "Authorization: "))
	resp, err := insecure.Do(slow)
	h.must(err)
	if err := resp.Body.Close(); resp.StatusCode != 400 || err != nil {
		t.Errorf("a slow body over HTTP/2: %d, %v, want 400", resp.StatusCode, err)
	}
	plain, _ := p.request(t, &http.Client{Transport: plaintextTransport{}}, "GET", "/healthz", "")
	if plain.StatusCode != 400 {
		t.Errorf("without TLS: %d, want 400", plain.StatusCode)
	}

	h.must(os.WriteFile(filepath.Join(string(h.dir), "cert.pem"), []byte("half a cert"), 0o600))
	wantCertificate("while the file is incomplete", 1)
	h.writeCertificate(2)
	wantCertificate("after the renewal", 2)
	send("with the renewed certificate")
	if conn, resp, err := socket(t, insecureClient(), p.url, h.authorization()); err != nil {
		t.Errorf("a socket over TLS: %v %v", err, resp)
	} else if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Errorf("the socket: %v", err)
	}
}

// stallingReader is a connection that stops reading after left bytes.
type stallingReader struct {
	net.Conn
	left   int
	closed chan struct{}
	once   sync.Once
}

func (s *stallingReader) Read(b []byte) (int, error) {
	if s.left <= 0 {
		<-s.closed
		return 0, net.ErrClosed
	}
	n, err := s.Conn.Read(b[:min(len(b), s.left)])
	s.left -= n
	return n, err
}

func (s *stallingReader) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Conn.Close()
}

// TestReadersThatStopReadingAreCutOffOverHTTP2 has a client that stops reading one stream, and one that
// stops reading its connection.
func TestReadersThatStopReadingAreCutOffOverHTTP2(t *testing.T) {
	h, p := newTLSFixture(t,
		"log_level = \"debug\"\ndefault_agent = \"silent\"\n[agents.silent]\nkind = \"exec\"\ncommand = [\"true\"]\n[limits]\nwrite_timeout = \"300ms\""), &process{}
	h.process(p, "--listen", "127.0.0.1:0")
	server, err := endpoint.Find(&command.Console{Data: string(h.dir)})
	h.must(err)
	c := server.Client()
	for range 4 { // more than the buffers of a connection hold
		_, err := c.Submit(t.Context(), api.Submit{Thread: "long", Text: strings.Repeat("x", mailroom.MaxText)})
		h.must(err)
	}
	// A request that writes nothing for longer than write_timeout is not cut off.
	later := time.Now().Add(time.Hour)
	queued, err := c.Submit(t.Context(), api.Submit{Thread: "later", Text: "a", NotBefore: &later})
	h.must(err)
	insecure := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer insecure.CloseIdleConnections()
	if resp, problem := p.request(t, insecure, "GET", "/v1/runs/"+queued.Run+"/wait?timeout=600ms", "",
		h.authorization()); resp.StatusCode != 200 {
		t.Errorf("GET wait: %d %s, want 200", resp.StatusCode, problem.Detail)
	}
	for name, most := range map[string]int{"a stream": 1 << 40, "a connection": 64 << 10} {
		window := 16 << 20 // of the stream, so that only the connection is full
		if name == "a stream" {
			window = 64 << 10
		}
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
				err = tcp.SetReadBuffer(16 << 10)
			}
			return &stallingReader{Conn: conn, left: most, closed: make(chan struct{})}, err
		}
		web := &http.Client{Transport: &http.Transport{
			DialContext: dial, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: window},
		}}
		resp, problem := p.request(t, web, "GET", "/v1/threads/long/stream", "", h.authorization(), "X-Request-ID: "+
			strings.ReplaceAll(name, " ", "-"))
		if resp.StatusCode != 200 || resp.Proto != "HTTP/2.0" {
			t.Fatalf("%s: %d %s over %s", name, resp.StatusCode, problem.Detail, resp.Proto)
		}
		line, err := p.until("request_id=" + strings.ReplaceAll(name, " ", "-"))
		if err != nil || !strings.Contains(line, "cut=true") {
			t.Errorf("%s that is not read: %v, log line %s, want cut=true", name, err, line)
		}
		web.CloseIdleConnections()
	}
}

// plaintextTransport sends requests to an https address without TLS.
type plaintextTransport struct{}

func (plaintextTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme = "http"
	return http.DefaultTransport.RoundTrip(r)
}

func TestCommandsTrustNoOtherCertificate(t *testing.T) {
	h, p := newTLSFixture(t, "", "localhost"), &process{}
	h.process(p, "--listen", "localhost:0")
	token, err := h.dir.Token()
	h.must(err)
	threads := func(ca string) (code int, stderr string) {
		var output bytes.Buffer
		env := map[string]string{"MAILROOM_URL": p.url, "MAILROOM_TOKEN": token, "MAILROOM_CA": ca}
		m := Main{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &output, Env: func(name string) string {
			return env[name]
		}}
		return m.Run(t.Context(), []string{"threads"}), output.String()
	}
	if code, stderr := threads(""); code != exitServer || !strings.Contains(stderr, "MAILROOM_CA") {
		t.Errorf("self-signed: exit code %d, %s, want %d", code, stderr, exitServer)
	}
	if code, stderr := threads(filepath.Join(string(h.dir), "cert.pem")); code != exitDone {
		t.Errorf("with MAILROOM_CA: exit code %d, %s", code, stderr)
	}
	for ca, want := range map[string]string{h.dir.Config(): "no certificate in",
		"/nowhere.pem": "set MAILROOM_CA to a file with certificates"} {
		if code, stderr := threads(ca); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("MAILROOM_CA=%s: exit code %d, %s", ca, code, stderr)
		}
	}
	// Another server listens at the address in server.json.
	other := httptest.NewUnstartedServer(http.NotFoundHandler())
	other.Config.ErrorLog = log.New(io.Discard, "", 0)
	other.StartTLS()
	defer other.Close()
	address, err := os.ReadFile(filepath.Join(string(h.dir), "server.json"))
	h.must(err)
	address = bytes.Replace(address, []byte(p.url), []byte(other.URL), 1)
	h.must(os.WriteFile(filepath.Join(string(h.dir), "server.json"), address, 0o600))
	if code, stderr := h.run(t.Context(), io.Discard, "threads"); code != exitServer ||
		!strings.Contains(stderr, "is not the one in") {
		t.Errorf("another certificate: exit code %d, %s, want %d", code, stderr, exitServer)
	}
}

// TestTheAPIWorksThroughAProxyThatEndsTLS sends requests of a page of https://mail.example.org through a
// proxy that forwards them without TLS.
func TestTheAPIWorksThroughAProxyThatEndsTLS(t *testing.T) {
	h, p := newFixture(t, "log_level = \"debug\"\nbehind_proxy = true\nhosts = [\"mail.example.org\"]"), &process{}
	h.process(p, "--listen", "0.0.0.0:0")
	inside, err := url.Parse(p.url)
	h.must(err)
	proxy := httptest.NewTLSServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(inside)
		r.Out.Host = r.In.Host
		r.Out.Header["X-Forwarded-For"] = []string{"203.0.113.9"} // set by the client
		r.SetXForwarded()
		r.Out.Header.Set("X-Forwarded-For", r.Out.Header.Get("X-Forwarded-For")+", 198.51.100.7")
	}})
	defer proxy.Close()
	outside := &process{url: proxy.URL}
	auth := h.authorization()
	page := []string{auth, "Host: mail.example.org", "Origin: https://mail.example.org", "Sec-Fetch-Site: same-origin"}
	resp, problem := outside.request(t, proxy.Client(), "POST", "/v1/threads/t/messages", `{"text":"through"}`, page...)
	if resp.StatusCode != 202 {
		t.Fatalf("submit: %d %s, want 202", resp.StatusCode, problem.Detail)
	}
	resp, problem = outside.request(t, proxy.Client(), "GET", "/v1/threads/t/stream?until=settled", "", page...)
	got, err := io.ReadAll(resp.Body)
	if resp.StatusCode != 200 || err != nil || !bytes.Contains(got, []byte("run.completed")) {
		t.Errorf("stream: %d %s, %v, %s; want 200 with run.completed", resp.StatusCode, problem.Detail, err, got)
	}
	evil := []string{auth, "Host: mail.example.org", "Origin: https://evil.example"}
	if resp, problem = outside.request(t, proxy.Client(), "POST", "/v1/messages", `{"text":"a"}`,
		evil...); problem.Code != mailroom.CodeForbidden {
		t.Errorf("from another origin: %d %q, want forbidden", resp.StatusCode, problem.Code)
	}
	if resp, problem = outside.request(t, proxy.Client(), "GET", "/v1/threads", "", auth,
		"Host: other.example.org"); problem.Code != mailroom.CodeForbidden {
		t.Errorf("to another host: %d %q, want forbidden", resp.StatusCode, problem.Code)
	}
	if resp, _ = outside.request(t, proxy.Client(), "GET", "/chat", "",
		"Host: mail.example.org"); resp.StatusCode != 200 ||
		!strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		t.Errorf("GET /chat: %d %s, want 200 text/html", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	if conn, resp, err := socket(t, proxy.Client(), proxy.URL, page[:3]...); err != nil {
		t.Errorf("a socket: %v %v", err, resp)
	} else if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Errorf("the socket: %v", err)
	}
	if _, resp, err := socket(t, proxy.Client(), proxy.URL, evil...); err == nil || resp == nil || resp.StatusCode != 403 {
		t.Errorf("a socket from another origin: %v %v, want 403", err, resp)
	}
	if _, err := p.until("from=198.51.100.7"); err != nil {
		t.Errorf("the log lacks the address that the proxy added: %v", err)
	}
	if line := p.output.line("203.0.113.9"); line != "" {
		t.Errorf("the log has the address that the client set: %s", line)
	}
	c := client.New(p.url, strings.TrimPrefix(auth, "Authorization: Bearer "))
	if _, err := c.Thread(t.Context(), "t"); err != nil {
		t.Errorf("a request without the proxy: %v", err)
	}
}
