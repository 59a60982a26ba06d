package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

// peer is the client's end of a socket.
type peer struct {
	t    *testing.T
	ctx  context.Context
	conn *websocket.Conn
}

// serverFrame is a frame from the server.
type serverFrame struct {
	Op         string          `json:"op"`
	ID         json.RawMessage `json:"id"`
	Sub        string          `json:"sub"`
	Cursor     string          `json:"cursor"`
	Thread     string          `json:"thread"`
	Run        string          `json:"run"`
	Status     string          `json:"status"`
	Result     json.RawMessage `json:"result"`
	Error      *api.Problem    `json:"error"`
	Entry      *mailroom.Entry `json:"entry"`
	Delta      *entry.Delta    `json:"delta"`
	Gap        *api.Gap        `json:"gap"`
	RetryAfter int             `json:"retry_after"`
}

// String formats the frame in one line: op, ids, cursor, thread, status and content. It leaves out the
// opaque cursor of the stream of all threads.
func (h serverFrame) String() string {
	cursor := h.Cursor
	if strings.Contains(cursor, "-") {
		cursor = ""
	}
	words := []string{h.Op, strings.Trim(string(h.ID), `"`), h.Sub, cursor, h.Thread, h.Status}
	switch {
	case h.Error != nil:
		words = append(words, string(h.Error.Code))
		for _, e := range h.Error.Errors {
			words = append(words, e.Location)
		}
	case h.Entry != nil:
		words = append(words, h.Entry.Kind)
	case h.Delta != nil:
		words = append(words, h.Delta.Text)
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// dial opens a socket with headers ("Name: value").
func (f *fixture) dial(headers ...string) *peer {
	f.t.Helper()
	p, resp, err := f.tryDial(headers...)
	if err != nil {
		f.t.Fatalf("no socket: %v %v", err, resp)
	}
	return p
}

func (f *fixture) tryDial(headers ...string) (*peer, *http.Response, error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Minute)
	f.t.Cleanup(cancel)
	o := &websocket.DialOptions{HTTPClient: &http.Client{Transport: f.http}, HTTPHeader: http.Header{}}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			o.Host = value
			continue
		}
		o.HTTPHeader.Set(name, value)
	}
	conn, resp, err := websocket.Dial(ctx, f.url+"/v1/ws", o)
	if err != nil {
		return nil, resp, err
	}
	conn.SetReadLimit(-1)
	f.t.Cleanup(func() { _ = conn.CloseNow() }) // it may be closed already
	return &peer{t: f.t, ctx: ctx, conn: conn}, resp, nil
}

// dialWithToken opens an authenticated socket.
func (f *fixture) dialWithToken() *peer {
	f.t.Helper()
	return f.dial("Authorization: Bearer " + f.secret)
}

func (p *peer) send(frame string, args ...any) {
	p.t.Helper()
	if err := p.conn.Write(p.ctx, websocket.MessageText, fmt.Appendf(nil, frame, args...)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) next() serverFrame {
	p.t.Helper()
	_, raw, err := p.conn.Read(p.ctx)
	if err != nil {
		p.t.Fatalf("the socket ended: %v", err)
	}
	var h serverFrame
	if err := json.Unmarshal(raw, &h); err != nil {
		p.t.Fatalf("%v in %.200s", err, raw)
	}
	return h
}

// want reads frames and compares them, formatted, with these.
func (p *peer) want(frames ...string) {
	p.t.Helper()
	for _, want := range frames {
		if got := p.next().String(); got != want {
			p.t.Fatalf("got %q, want %q", got, want)
		}
	}
}

// closed reads to the end of the socket and returns how it was closed.
func (p *peer) closed() websocket.CloseError {
	p.t.Helper()
	for {
		if _, _, err := p.conn.Read(p.ctx); err != nil {
			end, ok := errors.AsType[websocket.CloseError](err)
			if !ok {
				p.t.Fatalf("the socket broke: %v, want a close frame", err)
			}
			return end
		}
	}
}

// result sends a frame that must be acknowledged, and returns its result.
func result[T any](p *peer, frame string, args ...any) T {
	p.t.Helper()
	p.send(frame, args...)
	h := p.next()
	var out T
	if h.Op != "ack" {
		p.t.Fatalf("%s: %s %+v", frame, h, h.Error)
	}
	if err := json.Unmarshal(h.Result, &out); err != nil {
		p.t.Fatalf("%s: %v in %s", frame, err, h.Result)
	}
	return out
}

func TestASocketSubmitsFollowsAndAnswers(t *testing.T) {
	f := start(t)
	p := f.dial()
	who := result[api.Identity](p, `{"op":"auth","id":"a","token":%q}`, token)
	if who.Name != auth.Operator || len(who.Scopes) == 0 {
		t.Errorf("auth: %+v", who)
	}
	sent := result[store.Submitted](p, `{"op":"submit","id":1.0,"thread":"t","text":"one","options":{"a": "<"}}`)
	p.send(`{"op":"subscribe","id":2,"thread":"t"}`)
	p.want("ack 2 1", "entry 1 1 message", "entry 1 2 run.queued")
	w := f.claim()
	p.want("entry 1 3 run.started")
	f.publishText(w.Claim, 0, "hél")
	p.want("delta 1 3:4 hél")

	other := f.dialWithToken()
	run := result[api.Subscribed](other, `{"op":"resume","id":"r","thread":"t","run":%q,"after":"3"}`, sent.Run)
	if run != (api.Subscribed{Run: sent.Run, Thread: "t", Status: mailroom.StatusRunning}) {
		t.Errorf("resume: %+v", run)
	}
	f.settleRun(w, thread.OutcomeComplete, "héllo")
	other.want("entry 1 4 message", "entry 1 5 run.completed", "settled 1 completed")
	p.want("entry 1 4 message", "entry 1 5 run.completed", "settled 1 completed")

	// The stream of a finished run replays its entries after the cursor and ends.
	other.send(`{"op":"subscribe","id":3,"run":%q}`, sent.Run)
	other.want("ack 3 2", "entry 2 1 message", "entry 2 2 run.queued", "entry 2 3 run.started",
		"entry 2 4 message", "entry 2 5 run.completed", "settled 2 completed")
	other.send(`{"op":"subscribe","id":4,"run":%q,"after":"5"}`, sent.Run)
	other.want("ack 4 3", "settled 3 completed")

	p.send(`{"op":"unsubscribe","id":5,"sub":"1"}`)
	p.want("ack 5 1")
	f.submit("t", "two")
	p.send(`{"op":"ping","id":"p"}`)
	p.want("pong p")
}
