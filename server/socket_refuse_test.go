package server_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"mailroom"
	"mailroom/server"
	"mailroom/store"
)

func TestAHandshakeIsRefusedBeforeTheUpgrade(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Access.Origins = []string{"https://mail.example.org"} })
	for _, e := range []struct {
		name   string
		header []string
		status int
		code   mailroom.Code
	}{
		{"another origin", []string{"Origin: https://evil.example"}, 403, mailroom.CodeForbidden},
		{"an opaque origin", []string{"Origin: null"}, 403, mailroom.CodeForbidden},
		{"the page of another port", []string{"Origin: http://127.0.0.1:1"}, 403, mailroom.CodeForbidden},
		{"a foreign name for this address", []string{"Host: evil.example", "Origin: http://evil.example"}, 403, mailroom.CodeForbidden},
		{"a wrong token", []string{"Authorization: Bearer wrong"}, 401, mailroom.CodeUnauthenticated},
	} {
		p, resp, err := f.tryDial(e.header...)
		if err == nil {
			_ = p.conn.CloseNow()
			t.Errorf("%s: a socket, want %d", e.name, e.status)
			continue
		}
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		a := response{resp.StatusCode, resp.Header, string(raw)}
		if p := a.problem(t); a.status != e.status || p.Code != e.code {
			t.Errorf("%s: %d %s, want %d %s", e.name, a.status, p.Code, e.status, e.code)
		}
	}
	for _, origin := range []string{f.url, "https://mail.example.org"} {
		f.dial("Origin: " + origin)
	}
	f.wantCode("the token in the URL", f.call("GET /v1/ws?token="+token, ""), 422, mailroom.CodeInvalid)
	if a := f.call("GET /v1/ws?token="+token, ""); strings.Contains(a.body, token) {
		t.Errorf("the response has the token: %s", a.body)
	}
	f.wantCode("no handshake", f.call("GET /v1/ws", ""), 426, mailroom.CodeInvalid)
	f.wantCode("another origin reads", f.call("GET /v1/runs", "", "Origin: https://evil.example"), 403,
		mailroom.CodeForbidden)
	if a := f.call("GET /v1/runs", "", "Origin: "+f.url); a.status != 200 {
		t.Errorf("a page of the same origin: %d", a.status)
	}
}

func TestASocketWithoutATokenIsClosed(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Limits.HeaderTimeout = 50 * time.Millisecond })
	late := f.dial()
	if got := late.closed(); got.Code != 4401 {
		t.Errorf("no frame in time: %v, want 4401", got)
	}
	f = start(t)
	for frame, want := range map[string]string{
		`{"op":"auth","id":1,"token":"wrong"}`: "error 1 unauthenticated",
		`{"op":"ping","id":1}`:                 "error 1 unauthenticated",
		`{"op":"auth","id":1}`:                 "error 1 invalid body.token",
		`{"op":"auth","id":1,"token":""}`:      "error 1 invalid body.token",
		`[]`:                                   "error invalid body",
	} {
		p := f.dial()
		p.send("%s", frame)
		p.want(want)
		if got := p.closed(); got.Code != 4401 {
			t.Errorf("%s: closed with %v, want 4401", frame, got)
		}
	}
	p := f.dial()
	p.send(`{"op":"auth","id":1,"token":%q}`, strings.Repeat("x", 64<<10))
	if got := p.closed(); got.Code != 4413 {
		t.Errorf("a first frame of 64 KiB: %v, want 4413", got)
	}
	p = f.dialWithToken()
	p.send(`{"op":"auth","id":2,"token":%q}`, token)
	p.want("ack 2")
	p.send(`{"op":"auth","id":3,"token":"wrong"}`)
	p.want("error 3 unauthenticated")
	if got := p.closed(); got.Code != 4401 {
		t.Errorf("a wrong token later: %v, want 4401", got)
	}
}

func TestAFrameThatIsTooLargeClosesTheSocket(t *testing.T) {
	f := start(t)
	p := f.dialWithToken()
	p.send(`{"op":"submit","id":1,"thread":"t","text":"%s"}`, strings.Repeat("x", 1<<20+1))
	p.want("error 1 too_large body.text") // read, and refused by the limit of a message
	p.send(`{"op":"submit","id":1,"thread":"t","text":"%s"}`, strings.Repeat("x", 5<<20))
	if got := p.closed(); got.Code != 4413 {
		t.Errorf("a frame of 5 MiB: %v, want 4413", got)
	}
}

func TestInvalidFramesAreRefusedAndTheSocketStaysOpen(t *testing.T) {
	f := start(t)
	run := f.submit("t", "one").Run
	f.submit("u", "two")
	p := f.dialWithToken()
	deep := strings.Repeat("[", 10000) + strings.Repeat("]", 10000)
	for _, e := range [][2]string{
		{``, "error invalid body"},
		{`{`, "error invalid body"},
		{`[]`, "error invalid body"},
		{`null`, "error invalid body"},
		{`{} {}`, "error invalid body"},
		{`{"id":1,"op":"ping","x":` + deep + `}`, "error invalid body"},
		{`{"id":1,"op":"ping","x":` + deep[9900:10100] + `}`, "error 1 invalid body"},
		{"{\"id\":1,\"op\":\"\xff\"}", "error 1 invalid body"},
		{`{"id":1,"op":"ping","op":"ping"}`, "error 1 invalid body.op"},
		{`{"op":"ping"}`, "error invalid body.id"},
		{`{"op":"ping","id":null}`, "error invalid body.id"},
		{`{"op":"ping","id":{}}`, "error invalid body.id"},
		{`{"op":"ping","id":"` + strings.Repeat("x", 300) + `"}`, "error invalid body.id"},
		{`{"id":-1.50}`, "error -1.50 invalid body.op"},
		{`{"id":1,"op":7}`, "error 1 invalid body.op"},
		{`{"id":1,"op":"fly"}`, "error 1 invalid body.op"},
		{`{"id":1,"op":"ping","x":1}`, "error 1 invalid body.x"},
		{`{"id":1,"op":"ping","X":1}`, "error 1 invalid body.X"},
		{`{"id":1,"op":"submit","text":"a","colour":"red"}`, "error 1 invalid body.colour"},
		{`{"id":1,"op":"submit","thread":"..","text":"a"}`, "error 1 invalid body.thread"},
		{`{"id":1,"op":"submit","thread":"t"}`, "error 1 invalid body.text"},
		{`{"id":1,"op":"submit","thread":"t","text":"a","mode":"reject"}`, "error 1 busy"},
		{`{"id":1,"op":"subscribe","thread":"t","x":1}`, "error 1 invalid body.x"},
		{`{"id":1,"op":"subscribe","thread":""}`, "error 1 invalid body.thread"},
		{`{"id":1,"op":"subscribe","thread":null}`, "error 1 invalid body.thread"},
		{`{"id":1,"op":"subscribe","thread":".."}`, "error 1 invalid body.thread"},
		{`{"id":1,"op":"subscribe","thread":"a/b"}`, "error 1 invalid body.thread"},
		{`{"id":1,"op":"subscribe","thread":"t","after":1.5}`, "error 1 invalid body.after"},
		{`{"id":1,"op":"subscribe","thread":"t","after":-1}`, "error 1 invalid body.after"},
		{`{"id":1,"op":"subscribe","thread":"t","after":"x"}`, "error 1 invalid body.after"},
		{`{"id":1,"op":"subscribe","after":"1"}`, "error 1 invalid body.after"},
		{`{"id":1,"op":"subscribe","thread":"none"}`, "error 1 not_found"},
		{`{"id":1,"op":"subscribe","run":"none"}`, "error 1 not_found"},
		{`{"id":1,"op":"subscribe","run":".."}`, "error 1 not_found"},
		{`{"id":1,"op":"subscribe","thread":"u","run":"` + run + `"}`, "error 1 not_found"},
		{`{"id":1,"op":"resume","thread":"u","run":"` + run + `"}`, "error 1 not_found"},
		{`{"id":1,"op":"resume","thread":"none","run":"` + run + `"}`, "error 1 not_found"},
		{`{"id":1,"op":"resume","thread":"t"}`, "error 1 invalid body.run"},
		{`{"id":1,"op":"resume","run":"` + run + `"}`, "error 1 invalid body.thread"},
		{`{"id":1,"op":"unsubscribe"}`, "error 1 invalid body.sub"},
		{`{"id":1,"op":"unsubscribe","sub":"9"}`, "error 1 not_found"},
		{`{"id":1,"op":"unsubscribe","sub":9}`, "error 1 invalid body.sub"},
		{`{"id":1,"op":"cancel"}`, "error 1 invalid body.run"},
		{`{"id":1,"op":"cancel","run":"none"}`, "error 1 not_found"},
		{`{"id":1,"op":"cancel","run":"` + run + `","children":1}`, "error 1 invalid body.children"},
		{`{"id":1,"op":"cancel","run":"` + run + `","fast":true}`, "error 1 invalid body.fast"},
		{`{"id":1,"op":"interrupt","thread":"none"}`, "error 1 not_found"},
		{`{"id":1,"op":"interrupt","thread":"t","hard":true}`, "error 1 invalid body.hard"},
		{`{"id":1,"op":"decide","ticket":"none","decision":"approve"}`, "error 1 not_found"},
		{`{"id":1,"op":"decide","ticket":"none","decision":"maybe"}`, "error 1 invalid body.decision"},
	} {
		p.send("%s", e[0])
		if got := p.next().String(); got != e[1] {
			t.Errorf("%.200s: %q, want %q", e[0], got, e[1])
		}
	}
	if err := p.conn.Write(p.ctx, websocket.MessageBinary, []byte(`{"op":"ping","id":1}`)); err != nil {
		t.Fatal(err)
	}
	p.want("error invalid body")
	p.send(`{"op":"ping","id":"still here"}`)
	p.want("pong still here")
	p.send(`{"op":"subscribe","id":7,"run":%q}`, run)
	p.want("ack 7 1") // refused subscriptions took no id and no slot
}

func TestSubscriptionsCountAmongTheStreamsOfAToken(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Limits.MaxStreams = 2 })
	f.submit("t", "one")
	p, other := f.dialWithToken(), f.dialWithToken()
	p.send(`{"op":"subscribe","id":1,"thread":"t","after":"2"}`)
	p.want("ack 1 1")
	p.send(`{"op":"subscribe","id":2}`)
	p.want("ack 2 2")
	other.send(`{"op":"subscribe","id":3,"thread":"t"}`)
	if h := other.next(); h.String() != "error 3 rate_limited" || h.RetryAfter == 0 {
		t.Errorf("one too many: %s, retry after %d", h, h.RetryAfter)
	}
	f.wantCode("one too many", f.call("GET /v1/threads/t/stream", ""), 429, mailroom.CodeRateLimited)
	p.send(`{"op":"unsubscribe","id":4,"sub":"2"}`)
	p.want("ack 4 2")
	other.send(`{"op":"subscribe","id":5,"thread":"t","after":"2"}`)
	other.want("ack 5 1")
}

func TestASubmitInAFrameKeepsItsDigest(t *testing.T) {
	f := start(t)
	const body = `"thread":"t","text":"a < b","key":"k","options":{"b": 1.0, "a":"<é>"}`
	first := mustCall[store.Submitted](f, "POST /v1/messages", "{"+body+"}")
	again := result[store.Submitted](f.dialWithToken(), `{"op":"submit","id":1,%s}`, body)
	if again.Disposition != "duplicate" || again.Run != first.Run {
		t.Errorf("the same submit in a frame: %+v, want a duplicate of %s", again, first.Run)
	}
}

func TestAnUnfinishedFrameTimesOut(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Limits.BodyTimeout = 50 * time.Millisecond })
	p := f.dialWithToken()
	w, err := p.conn.Writer(p.ctx, websocket.MessageText)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, fmt.Sprintf(`{"op":"submit","id":1,"text":"%s`,
		strings.Repeat("x", 8<<10))); err != nil {
		t.Fatal(err)
	}
	if got := p.closed(); got.Code != websocket.StatusPolicyViolation {
		t.Errorf("half a frame: %v, want 1008", got)
	}
}

func TestASocketThatFloodsWithFramesIsClosed(t *testing.T) {
	f := start(t)
	for name, flood := range map[string]func(p *peer){
		"pings": func(p *peer) {
			for p.conn.Ping(p.ctx) == nil { // until the socket ends
			}
		},
		"fragments": func(p *peer) {
			w, err := p.conn.Writer(p.ctx, websocket.MessageText)
			for range 2000 {
				if err == nil {
					_, err = w.Write([]byte(" "))
				}
			}
		},
	} {
		p, other := f.dialWithToken(), f.dialWithToken()
		var flooding sync.WaitGroup
		flooding.Go(func() { flood(p) })
		if got := p.closed(); got.Code != websocket.StatusPolicyViolation || !strings.Contains(got.Reason, "too many") {
			t.Errorf("%s: %v, want 1008 with the reason", name, got)
		}
		flooding.Wait()
		other.send(`{"op":"ping","id":1}`)
		other.want("pong 1")
	}
}
