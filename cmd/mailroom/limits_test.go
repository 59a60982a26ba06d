package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
)

// tight has limits that a test reaches quickly.
const tight = `hosts = ["mail.example.org"]
origins = ["https://app.example.org"]
[limits]
header = "8KiB"
frame = "8KiB"
header_timeout = "200ms"
body_timeout = "200ms"
idle_timeout = "200ms"
streams = 2
submits = 1
submit_burst = 12
`

// request sends a request to a server and returns the response, and the problem if the body is one.
// Headers are "Name: value".
func (p *process) request(
	t *testing.T, web *http.Client, method, path, body string, headers ...string,
) (*http.Response, api.Problem) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if req.Header.Set(name, value); name == "Host" {
			req.Host = value
		}
	}
	resp, err := web.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	var problem api.Problem
	if resp.Header.Get("Content-Type") == api.ProblemType {
		if err := json.NewDecoder(resp.Body).Decode(&problem); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { _ = resp.Body.Close() }) // the test has read what it needs
	return resp, problem
}

// authorization returns the header with the server's token.
func (h *fixture) authorization() string {
	h.t.Helper()
	token, err := h.dir.Token()
	h.must(err)
	return "Authorization: Bearer " + token
}

func TestAServerEnforcesItsLimits(t *testing.T) {
	h, p := newFixture(t, tight), &process{}
	h.process(p)
	auth := h.authorization()
	web := &http.Client{}
	defer web.CloseIdleConnections()
	for _, tc := range []struct {
		name, route, body string
		headers           []string
		status            int
		code              mailroom.Code
	}{
		{"a 5 MiB body", "POST /v1/threads/t/interrupt", strings.Repeat(" ", 5<<20), []string{auth}, 413, mailroom.CodeTooLarge},
		{"10,000-deep JSON", "PATCH /v1/threads/t", `{"metadata":` + strings.Repeat("[", 10_000) + strings.Repeat("]",
			10_000) + `}`, []string{auth}, 400, mailroom.CodeInvalid},
		{"a header of 16 KiB", "GET /healthz", "", []string{"X-A: " + strings.Repeat("a", 16<<10)}, 431, ""},
		{"a foreign host", "GET /v1/threads", "", []string{auth, "Host: evil.example"}, 403, mailroom.CodeForbidden},
		{"a configured host", "GET /v1/threads", "", []string{auth, "Host: mail.example.org"}, 200, ""},
		{"a configured host and its own origin", "POST /v1/threads/t/interrupt", "", []string{auth, "Host: mail.example.org",
			"Origin: https://mail.example.org"}, 404, mailroom.CodeNotFound},
		{"a foreign origin", "POST /v1/messages", `{"text":"a"}`, []string{auth, "Origin: https://evil.example"}, 403, mailroom.CodeForbidden},
		{"a configured origin", "POST /v1/threads/t/interrupt", "", []string{auth, "Origin: https://app.example.org"}, 404,
			mailroom.CodeNotFound},
		{"a preflight of a configured origin", "OPTIONS /v1/messages", "", []string{"Origin: https://app.example.org",
			"Access-Control-Request-Method: POST"}, 204, ""},
		{"a preflight of a foreign origin", "OPTIONS /v1/messages", "", []string{"Origin: https://evil.example",
			"Access-Control-Request-Method: POST"}, 403, mailroom.CodeForbidden},
		{"a read from a foreign origin", "GET /v1/threads", "", []string{auth, "Origin: https://evil.example"}, 403, mailroom.CodeForbidden},
		{"the origin null", "POST /v1/messages", `{"text":"a"}`, []string{auth, "Origin: null"}, 403, mailroom.CodeForbidden},
	} {
		method, path, _ := strings.Cut(tc.route, " ")
		resp, problem := p.request(t, web, method, path, tc.body, tc.headers...)
		if resp.StatusCode != tc.status || problem.Code != tc.code {
			t.Errorf("%s: %d %q (%s), want %d %q", tc.name, resp.StatusCode, problem.Code, problem.Detail, tc.status, tc.code)
		}
	}
	t.Run("frames", func(t *testing.T) { checkFrameLimit(t, p, web, auth) })
	t.Run("slow", func(t *testing.T) { checkSlowClients(t, p, auth) })
	t.Run("submits", func(t *testing.T) { checkSubmitRate(t, p, web, auth) })
	t.Run("streams", func(t *testing.T) { checkStreamLimit(t, p, web, auth) })
}

// checkSlowClients sends requests that never end and waits until the server closes the connection.
func checkSlowClients(t *testing.T, p *process, auth string) {
	for name, tc := range map[string]struct{ first, then, answer string }{
		"a slow header": {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: ", "a", ""},
		"a slow body": {"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n" + auth +
			"\r\nContent-Length: 200000\r\n\r\n{", " ", "HTTP/1.1 400 Bad Request"},
		"a slow body without a token": {"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n{",
			" ", "HTTP/1.1 401 Unauthorized"},
		"an idle connection":             {"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "", "HTTP/1.1 200 OK"},
		"a connection without a request": {"", "", ""},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(waitTimeout)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, tc.first); err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		dribbled := make(chan struct{})
		go func() {
			defer close(dribbled)
			drip := time.NewTicker(10 * time.Millisecond)
			defer drip.Stop()
			for {
				select {
				case <-closed:
					return
				case <-drip.C:
				}
				if _, err := io.WriteString(conn, tc.then); err != nil {
					return // the server closed the connection
				}
			}
		}()
		answer, err := io.ReadAll(conn)
		close(closed)
		<-dribbled
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection is still open", name)
		}
		got, _, _ := strings.Cut(string(answer), "\r\n")
		if got != tc.answer {
			t.Errorf("%s was answered with %q, want %q", name, got, tc.answer)
		}
	}
}

// socket opens a WebSocket at base, with headers "Name: value".
func socket(t *testing.T, web *http.Client, base string, headers ...string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	t.Cleanup(cancel)
	o := &websocket.DialOptions{HTTPClient: web, HTTPHeader: http.Header{}}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if o.HTTPHeader.Set(name, value); name == "Host" {
			o.Host = value
		}
	}
	conn, resp, err := websocket.Dial(ctx, base+"/v1/ws", o)
	if err == nil {
		t.Cleanup(func() { _ = conn.CloseNow() }) // it may be closed already
	}
	return conn, resp, err
}

func checkFrameLimit(t *testing.T, p *process, web *http.Client, auth string) {
	conn, _, err := socket(t, web, p.url, auth)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{7 << 10, 9 << 10} {
		frame := `{"op":"ping","id":"` + strings.Repeat("x", size) + `"}`
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(frame)); err != nil {
			t.Fatal(err)
		}
		_, got, err := conn.Read(t.Context())
		if size < 8<<10 && err != nil {
			t.Errorf("a frame of 7 KiB ended the socket: %v", err)
		}
		if code := websocket.CloseStatus(err); size > 8<<10 && code != 4413 {
			t.Errorf("a frame of 9 KiB was answered with %.100q, %v, want the close code 4413", got, err)
		}
	}
}

func checkSubmitRate(t *testing.T, p *process, web *http.Client, auth string) {
	for n := range 100 {
		resp, problem := p.request(t, web, "POST", "/v1/threads/paced/messages", `{"text":"a"}`, auth)
		if n < 3 && resp.StatusCode != 202 { // other writes of this test count as well
			t.Fatalf("submit %d: %d %s", n+1, resp.StatusCode, problem.Detail)
		}
		if resp.StatusCode == 202 {
			continue
		}
		after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		if resp.StatusCode != 429 || problem.Code != mailroom.CodeRateLimited || err != nil || after != 1 {
			t.Errorf("a submit over the limit: %d %q, Retry-After %q, want 429 rate_limited and 1", resp.StatusCode,
				problem.Code, resp.Header.Get("Retry-After"))
		}
		if !strings.Contains(problem.Detail, "limits.submits") {
			t.Errorf("the error %q does not name limits.submits", problem.Detail)
		}
		return
	}
	t.Error("100 submits were accepted, want a refusal")
}

func checkStreamLimit(t *testing.T, p *process, web *http.Client, auth string) {
	var open []*http.Response
	for range 2 {
		resp, problem := p.request(t, web, "GET", "/v1/stream", "", auth)
		if resp.StatusCode != 200 {
			t.Fatalf("a stream: %d %s", resp.StatusCode, problem.Detail)
		}
		open = append(open, resp)
	}
	resp, problem := p.request(t, web, "GET", "/v1/threads/paced/stream", "", auth)
	if resp.StatusCode != 429 || problem.Code != mailroom.CodeRateLimited || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a stream over the limit: %d %q, want 429 rate_limited", resp.StatusCode, problem.Code)
	}
	// The server notices a closed stream after a moment, so the client retries.
	if err := open[0].Body.Close(); err != nil {
		t.Fatal(err)
	}
	c := client.New(p.url, strings.TrimPrefix(auth, "Authorization: Bearer "), client.WithHTTPClient(web),
		client.WithBackoff(10*time.Millisecond, 50*time.Millisecond))
	for ev, err := range c.Follow(t.Context(), client.FollowQuery{Thread: "paced"}) {
		if err != nil || ev.Entry.Seq != 1 {
			t.Errorf("a stream after one was closed: %+v, %v", ev, err)
		}
		break
	}
}

// TestTheAPIChangesNoCommandOfAnAgent checks that no request changes the command of the configuration
// or adds to it.
func TestTheAPIChangesNoCommandOfAnAgent(t *testing.T) {
	h, p := newFixture(t, "default_agent = \"cat\"\n[agents.cat]\nkind = \"exec\"\ncommand = [\"cat\"]\n"), &process{}
	h.process(p)
	auth, web := h.authorization(), &http.Client{}
	defer web.CloseIdleConnections()
	for body, want := range map[string]int{
		`{"text":"a","agent":"/bin/sh"}`: 422, `{"text":"a","agent":"sh -c true"}`: 422, `{"text":"a","agent":"../cat"}`: 422,
		`{"text":"a","command":["sh"]}`: 422, `{"text":"a","env":{"PATH":"/tmp"}}`: 422,
	} {
		if resp, problem := p.request(t, web, "POST", "/v1/threads/t/messages", body, auth); resp.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", body, resp.StatusCode, problem.Detail, want)
		}
	}
	c := client.New(p.url, strings.TrimPrefix(auth, "Authorization: Bearer "))
	sent, err := c.Submit(t.Context(), api.Submit{
		Thread: "t", Text: "$(touch pwned); `touch pwned`", Metadata: map[string]string{"command": "touch pwned"},
		Options: json.RawMessage(`{"command":["touch","pwned"],"dir":"/","env":{"PATH":"/tmp"}}`),
	})
	h.must(err)
	run, err := c.WaitRun(t.Context(), sent.Run, waitTimeout)
	h.must(err)
	if run.Reply == nil || *run.Reply != "$(touch pwned); `touch pwned`" {
		t.Errorf("the run is %s with reply %v, want its input", run.Status, run.Reply)
	}
	if _, err := os.Stat(filepath.Join(string(h.dir), "pwned")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a request ran a command: Stat(pwned) = %v", err)
	}
}
