package server_test

import (
	"testing"

	"github.com/coder/websocket"

	"mailroom"
	"mailroom/server"
)

func TestSubmitsAreRateLimitedPerTokenOnEveryProtocol(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Limits.Submits, o.Limits.SubmitBurst = 0.001, 3 })
	submits := []string{"POST /v1/messages", "POST /v1/threads/t/messages"}
	for _, route := range submits {
		if a := f.call(route, `{"text":"a"}`); a.status != 202 {
			t.Fatalf("%s: %d %s", route, a.status, a.body)
		}
	}
	p := f.dialWithToken()
	p.send(`{"op":"submit","id":1,"thread":"t","text":"a"}`)
	if got := p.next(); got.Op != "ack" {
		t.Fatalf("the third one, in a frame: %s", got)
	}
	p.send(`{"op":"submit","id":2,"thread":"t","text":"a"}`)
	if got := p.next(); got.Op != "error" || got.Error.Code != mailroom.CodeRateLimited || got.RetryAfter < 900 ||
		got.RetryAfter > 1000 {
		t.Errorf("one too many, in a frame: %s, after %d s; want rate_limited and almost 1,000 s", got, got.RetryAfter)
	}
	before := f.snapshot()
	for _, route := range submits {
		a := f.call(route, `{"text":"a"}`)
		f.wantCode(route, a, 429, mailroom.CodeRateLimited)
		if got := a.header.Get("Retry-After"); len(got) < 3 {
			t.Errorf("%s: Retry-After %q, want almost 1,000", route, got)
		}
	}
	if after := f.snapshot(); after != before {
		t.Errorf("refused submits wrote %s", after)
	}
	for _, route := range []string{
		"POST /v1/threads/t/interrupt", "PATCH /v1/threads/t", "DELETE /v1/threads/t", "POST /v1/runs/x/cancel",
		"POST /v1/reservations",
		"POST /v1/notifications/take", "POST /v1/tickets/x", "POST /v1/tokens",
	} {
		f.wantCode(route, f.call(route, `{}`), 429, mailroom.CodeRateLimited)
	}
	for _, frame := range []string{`{"op":"interrupt","id":3,"thread":"t"}`, `{"op":"cancel","id":4,"run":"x"}`} {
		p.send("%s", frame)
		if got := p.next(); got.Op != "error" || got.Error.Code != mailroom.CodeRateLimited {
			t.Errorf("%s: %s, want rate_limited", frame, got)
		}
	}
	if a := f.call("GET /v1/threads/t/messages", ""); a.status != 200 {
		t.Errorf("a read: %d %s, want 200: reads are not limited", a.status, a.body)
	}
	f.wantCode("a worker's call", f.call("POST /v1/claims/x/settle", `{}`), 422, mailroom.CodeInvalid)
}

func TestSocketsOfATokenAreCounted(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Limits.MaxStreams = 1 })
	first := f.dialWithToken()
	first.send(`{"op":"ping","id":1}`)
	first.want("pong 1")
	for _, p := range []*peer{f.dialWithToken(), f.dial()} { // with the token in the header and in a frame
		p.send(`{"op":"auth","id":2,"token":%q}`, token)
		if got := p.next(); got.Op != "error" || got.Error.Code != mailroom.CodeRateLimited || got.RetryAfter == 0 {
			t.Errorf("one too many: %s, want rate_limited", got)
		}
		if end := p.closed(); end.Code != websocket.StatusTryAgainLater {
			t.Errorf("one too many was closed with %d %s, want %d", end.Code, end.Reason, websocket.StatusTryAgainLater)
		}
	}
	first.send(`{"op":"ping","id":3}`)
	first.want("pong 3")
	if err := first.conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Fatal(err)
	}
	for { // until the server has released the slot
		again := f.dialWithToken()
		again.send(`{"op":"ping","id":4}`)
		if got := again.next(); got.Op == "pong" {
			return
		}
		again.closed()
	}
}
