package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/auth"
	"mailroom/bus"
	"mailroom/client"
	"mailroom/entry"
	"mailroom/server"
	"mailroom/store"
	"mailroom/stream"
	"mailroom/thread"
)

// reader reads a stream from the wire.
type reader struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Reader
}

// open starts a stream. It fails the test unless the response has this status.
func (f *fixture) open(status int, path string, headers ...string) *reader {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Minute)
	f.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", f.url+path, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+f.secret)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := f.http.RoundTrip(req)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != status {
		raw, err := io.ReadAll(resp.Body)
		f.t.Fatalf("%s: status %d, want %d: %s %v", path, resp.StatusCode, status, raw, err)
	}
	return &reader{f.t, resp, bufio.NewReader(resp.Body)}
}

// block returns the lines up to the next empty line, "" at the end.
func (r *reader) block() string {
	r.t.Helper()
	var lines []string
	for {
		line, err := r.in.ReadString('\n')
		if line == "\n" {
			return strings.Join(lines, "\n")
		}
		if errors.Is(err, io.EOF) && len(lines) == 0 && line == "" {
			return ""
		}
		if err != nil {
			r.t.Fatalf("the stream broke: %v after %q", err, lines)
		}
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
}

// event skips comments and returns "name id content".
func (r *reader) event() string {
	r.t.Helper()
	for {
		b := r.block()
		if strings.HasPrefix(b, ":") {
			continue
		}
		if b == "" {
			return "end"
		}
		lines := strings.Split(b, "\n")
		if len(lines) != 3 {
			r.t.Fatalf("an event of %d lines: %q", len(lines), b)
		}
		name, ok1 := strings.CutPrefix(lines[0], "event: ")
		id, ok2 := strings.CutPrefix(lines[1], "id: ")
		data, ok3 := strings.CutPrefix(lines[2], "data: ")
		var what struct{ Kind, Text string }
		if err := json.Unmarshal([]byte(data), &what); err != nil || !ok1 || !ok2 || !ok3 {
			r.t.Fatalf("%v in the event %q", err, b)
		}
		return strings.TrimSpace(fmt.Sprintf("%s %s %s%s", name, id, what.Kind, what.Text))
	}
}

func (r *reader) want(events ...string) {
	r.t.Helper()
	for _, want := range events {
		if got := r.event(); got != want {
			r.t.Fatalf("event %q, want %q", got, want)
		}
	}
}

// publishText publishes live text of a claimed run.
func (f *fixture) publishText(run mailroom.Claim, offset int, text string) {
	f.bus.Publish(bus.Notice{Thread: run.Thread, Delta: &entry.Delta{
		Run: run.Run, Attempt: run.Attempt, Message: fmt.Sprintf("%s.%d-1", run.Run, run.Attempt),
		Offset: offset, Channel: "text", Text: text,
	}})
}

func TestStreamReplaysThenFollowsThenEnds(t *testing.T) {
	f := start(t)
	f.submit("t", "one")
	r := f.open(200, "/v1/threads/t/stream?until=settled")
	if got := r.resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type %q", got)
	}
	r.want("entry 1 message", "entry 2 run.queued")
	w := f.claim()
	r.want("entry 3 run.started")
	f.publishText(w.Claim, 0, "hél")
	r.want("delta 3:4 hél")
	f.publishText(w.Claim, 4, "lo")
	r.want("delta 3:6 lo")
	f.settleRun(w, thread.OutcomeComplete, "héllo")
	r.want("entry 4 message", "entry 5 run.completed", "end")
}

func TestStreamResumesAfterTheLastEvent(t *testing.T) {
	f := start(t)
	run := f.submit("t", "one").Run
	f.settleRun(f.claim(), thread.OutcomeComplete, "reply")
	f.open(200, "/v1/threads/t/stream?after=3").want("entry 4 message", "entry 5 run.completed")
	f.open(200, "/v1/threads/t/stream?after=1", "Last-Event-ID: 3").want("entry 4 message")
	f.open(200, "/v1/threads/t/stream?after=3:17").want("entry 4 message")
	f.open(200, "/v1/threads/t/stream?after=4&until=settled").want("entry 5 run.completed", "end")
	f.open(200, "/v1/runs/"+run+"/stream?after=4&until=settled").want("entry 5 run.completed", "end")
	f.open(200, "/v1/runs/"+run+"/stream?after=4").want("entry 5 run.completed", "end") // a run's stream ends with it
	f.open(204, "/v1/runs/"+run+"/stream?after=5")
	f.open(204, "/v1/threads/t/stream?after=5&until=settled")
	f.open(204, "/v1/threads/t/stream?until=waiting", "Last-Event-ID: 5")
	f.open(204, "/v1/runs/"+run+"/stream?until=settled", "Last-Event-ID: 5")

	r := f.open(200, "/v1/threads/t/stream?after=5")
	next := f.submit("t", "two").Run
	r.want("entry 6 message", "entry 7 run.queued")
	f.open(200, "/v1/threads/t/stream?after=99").want("gap 7")
	f.open(200, "/v1/threads/t/stream?run="+next).want("entry 6 message", "entry 7 run.queued")
	f.open(200, "/v1/runs/"+run+"/stream?until=settled").want(
		"entry 1 message", "entry 2 run.queued", "entry 3 run.started", "entry 4 message", "entry 5 run.completed", "end")
}

func TestIdleStreamsSendHeartbeats(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Limits.Heartbeat = 5 * time.Millisecond })
	f.submit("t", "one")
	r := f.open(200, "/v1/threads/t/stream?after=2")
	for range 3 {
		if got := r.block(); !strings.HasPrefix(got, ":") {
			t.Fatalf("got %q, want a comment", got)
		}
	}
	f.submit("t", "two")
	r.want("entry 3 message")
}

func TestStreamsOfOneTokenAreBounded(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Limits.MaxStreams = 2 })
	run := f.submit("t", "one").Run
	one := f.open(200, "/v1/threads/t/stream")
	f.open(200, "/v1/threads/t/stream")
	for _, route := range []string{"GET /v1/threads/t/stream", "GET /v1/runs/" + run + "/wait"} {
		a := f.call(route, "")
		if p := a.problem(t); a.status != 429 || p.Code != mailroom.CodeRateLimited || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s, want 429 with Retry-After", route, a.status, a.body)
		}
	}
	one.resp.Body.Close()
	f.log.wait(t, `"status":200,"duration"`) // the log line of a stream is written at its end
	if a := f.call("GET /v1/runs/"+run+"/wait?timeout=0s", ""); a.status != 200 {
		t.Errorf("after one was closed: %d %s, want 200", a.status, a.body)
	}
}

func TestTheStreamsQuotaBoundsAToken(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Limits.MaxStreams = 1 })
	f.createToken("ann", "", auth.PermissionRead, auth.PermissionSubmit)
	bob := f.withToken(f.createToken("bob", "", auth.PermissionRead, auth.PermissionSubmit))
	if _, err := f.client.Accounts().SetQuotas(t.Context(), "bob", auth.Quotas{auth.QuotaStreams: 2}); err != nil {
		t.Fatal(err)
	}
	bob.submit("t", "one")
	bob.open(200, "/v1/threads/t/stream")
	bob.open(200, "/v1/threads/t/stream")
	a := bob.call("GET /v1/threads/t/stream", "")
	if p := a.problem(t); a.status != 429 || !strings.Contains(p.Detail, "2 of 2 streams and waits") {
		t.Errorf("%d %s, want 429 with limit and use", a.status, a.body)
	}
	tokens, err := f.client.Accounts().Tokens(t.Context())
	if err != nil || tokens[1].Used.Streams != 2 || tokens[1].Quotas[auth.QuotaStreams] != 2 ||
		tokens[0].Quotas[auth.QuotaStreams] != 1 {
		t.Errorf("tokens: %+v, %v, want use and limits of streams", tokens, err)
	}
	metrics := f.call("GET /metrics", "").body
	for _, want := range []string{`mailroom_quota_used{quota="threads"} 1`, `mailroom_quota_used{quota="streams"} 2`,
		`mailroom_quota_fullest_ratio{quota="streams"} 1`} {
		if !strings.Contains(metrics, "\n"+want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
}

func TestAReaderThatStopsReadingIsCutOff(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Limits.WriteTimeout = 50 * time.Millisecond })
	text := strings.Repeat("x", 64<<10)
	for range 4 {
		f.submit("t", text)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(16 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn,
		"GET /v1/threads/t/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", token); err != nil {
		t.Fatal(err)
	}
	f.log.wait(t, `"cut":true`) // conn is never read
}

func TestClientFollowsLiveTextToTheEnd(t *testing.T) {
	f := start(t)
	run := f.submit("t", "one").Run
	w := f.claim()
	var events []string
	for e, err := range f.client.Follow(t.Context(), client.FollowQuery{Run: run, Until: client.UntilSettled}) {
		if err != nil {
			t.Fatal(err)
		}
		event := e.ID + " "
		if e.Entry != nil {
			event += e.Entry.Kind
		} else {
			event += e.Delta.Text
		}
		events = append(events, event)
		switch event {
		case "3 run.started":
			f.publishText(w.Claim, 0, "hello")
		case "3:5 hello":
			f.settleRun(w, thread.OutcomeComplete, "hello")
		}
	}
	want := []string{"1 message", "2 run.queued", "3 run.started", "3:5 hello", "4 message", "5 run.completed"}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Error(diff)
	}
}

func TestDribblingHeadersAreRefused(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Limits.HeaderTimeout = 100 * time.Millisecond })
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: "); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for range ticker.C { // one byte at a time, until the server closes the connection
		if _, err := io.WriteString(conn, "a"); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				t.Fatal("the server still reads an endless header")
			}
			return
		}
	}
}

func TestDribblingBodiesAreRefused(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Limits.BodyTimeout = 50 * time.Millisecond })
	for auth, want := range map[string]int{"Bearer " + token: 400, "": 401} { // including one that no handler reads
		body, keepOpen := io.Pipe()
		defer keepOpen.Close()
		req, err := http.NewRequest("POST", f.url+"/v1/messages", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", auth)
		resp, err := f.http.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != want || !resp.Close {
			t.Errorf("incomplete body with authorization %.6q: %d, want %d", auth, resp.StatusCode, want)
		}
	}
}

func TestHugeHeadersAreRefused(t *testing.T) {
	f := start(t)
	if a := f.call("GET /healthz", "", "X-A: "+strings.Repeat("a", 128<<10)); a.status != 431 {
		t.Errorf("a header of 128 KiB: %d, want 431", a.status)
	}
}

func TestShutdownEndsStreamsAndLetsRequestsFinish(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	f := start(t, func(o *server.Options) {
		o.Ledger.Messages = &slowMessages{Messages: o.Ledger.Messages, entered: entered, leave: leave}
	})
	run := mustCall[store.Submitted](f, "POST /v1/threads/t/messages", `{"text":"one"}`).Run
	r := f.open(200, "/v1/threads/t/stream")
	r.want("entry 1 message", "entry 2 run.queued")

	type result struct {
		status int
		err    error
	}
	get := func(path string) chan result {
		done := make(chan result, 1)
		go func() {
			req, err := http.NewRequest("GET", f.url+path, nil)
			if err != nil {
				done <- result{err: err}
				return
			}
			req.Header.Set("Authorization", "Bearer "+token)
			resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
			if err != nil {
				done <- result{err: err}
				return
			}
			defer resp.Body.Close()
			_, err = io.ReadAll(resp.Body)
			done <- result{resp.StatusCode, err}
		}()
		return done
	}
	working := get("/v1/threads/t/messages/" + run + ".1")
	<-entered
	f.stop()
	r.want("end") // streams end first
	select {
	case err := <-f.served:
		t.Fatalf("Serve returned %v during a request", err)
	default:
	}
	close(leave)
	if got := <-working; got.err != nil || got.status != 200 {
		t.Errorf("a running request during shutdown: %+v, want 200", got)
	}
	f.waitStopped()
}

// slowMessages delays the answer to one call.
type slowMessages struct {
	server.Messages
	entered, leave chan struct{}
}

func (s *slowMessages) Message(ctx context.Context, thread, message string) (mailroom.Message, error) {
	close(s.entered)
	<-s.leave
	return s.Messages.Message(ctx, thread, message)
}

func TestShutdownAnswersWaits(t *testing.T) {
	following := make(chan struct{})
	f := start(t, func(o *server.Options) { o.Streams = &signalStreams{Streams: o.Streams, following: following} })
	run := f.submit("t", "one").Run
	waited := make(chan response, 1)
	go func() { waited <- f.call("GET /v1/runs/"+run+"/wait?timeout=5m", "") }()
	<-following
	f.stop()
	if a := <-waited; a.status != 200 || !strings.Contains(a.body, `"status":"queued"`) {
		t.Errorf("wait at shutdown: %d %s, want the current run", a.status, a.body)
	}
}

// signalStreams signals when a reader starts to follow.
type signalStreams struct {
	server.Streams
	following chan struct{}
}

func (n *signalStreams) Follow(ctx context.Context, q stream.Query, emit func(stream.Event) error) error {
	close(n.following)
	return n.Streams.Follow(ctx, q, emit)
}
