package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// fillLong fills a thread with large messages.
func (t *target) fillLong(ctx context.Context) error {
	return t.repeatRequest(ctx, 100, 4, t.token, http.MethodPost, "/v1/threads/long/messages?%d",
		same(`{"text":"`+strings.Repeat("word ", 200_000)+`","not_before":"2099-01-01T00:00:00Z"}`))
}

// pages returns an attack that requests large pages.
func pages(name, path string) attack {
	return attack{name, func(ctx context.Context, t *target) error {
		if err := t.fillLong(ctx); err != nil {
			return err
		}
		return t.repeatRequest(ctx, 12, 4, t.token, http.MethodGet, path, nil)
	}}
}

// readers returns the attacks that read much, or request data and do not read the answers.
func readers() []attack {
	streams := func(path string) func(ctx context.Context, t *target) error {
		return func(ctx context.Context, t *target) error {
			if err := t.fillLong(ctx); err != nil {
				return err
			}
			return t.hold(ctx, 500, 4*time.Second, func(_ context.Context, c net.Conn, _ int) {
				write(c, "GET "+path+" HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "+t.token+"\r\n\r\n")
			})
		}
	}
	return []attack{
		pages("500 large entries in a page", "/v1/threads/long/entries?limit=500"),
		pages("500 large messages in a page", "/v1/threads/long/messages?limit=500&all=true"),
		pages("500 runs in a page", "/v1/runs?limit=500"),
		{"500 unread streams", streams("/v1/threads/long/stream?after=0")},
		{"500 unread pages", streams("/v1/threads/long/entries?limit=500")},
	}
}

// socket opens a WebSocket with the attacker's token.
func (t *target) socket(ctx context.Context) (*websocket.Conn, error) {
	c, res, err := websocket.Dial(ctx, strings.Replace(t.url, "https:", "wss:", 1)+"/v1/ws", &websocket.DialOptions{
		// accepts the server's own certificate
		HTTPClient: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}},
		HTTPHeader: http.Header{"Authorization": {"Bearer " + t.token}},
	})
	if err != nil && res != nil && res.Body != nil {
		_ = res.Body.Close()
	}
	return c, err
}

// frameAttack returns an attack by sockets that send frames and read nothing.
func frameAttack(name string, count int, frames func(i int) []string) attack {
	return attack{name, func(ctx context.Context, t *target) error {
		if err := t.fillLong(ctx); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 6*time.Second)
		defer cancel()
		ended := make(chan struct{}, count)
		for i := range count {
			go func() { // waited for below
				defer func() { ended <- struct{}{} }()
				c, err := t.socket(ctx)
				if err != nil {
					return // refused
				}
				defer func() { _ = c.CloseNow() }()
				for _, f := range frames(i) {
					if c.Write(ctx, websocket.MessageText, []byte(f)) != nil {
						return
					}
				}
				<-ctx.Done()
			}()
		}
		for range count {
			<-ended
		}
		return nil
	}}
}

// sockets returns the attacks over WebSockets.
func sockets() []attack {
	return []attack{
		frameAttack("250 sockets that read nothing", 250, func(int) []string {
			return []string{`{"op":"subscribe","id":1,"thread":"long","after":0}`}
		}),
		frameAttack("10,000 subscriptions", 4, func(int) (frames []string) {
			for i := range 10_000 {
				frames = append(frames, fmt.Sprintf(`{"op":"subscribe","id":%d,"thread":"long","after":0}`, i))
			}
			return frames
		}),
		frameAttack("frames of 4 MB", 8, func(int) []string {
			return []string{`{"op":"submit","id":1,"options":` + nested(4*mebibyte-64) + `}`, strings.Repeat("x", 5*mebibyte)}
		}),
		frameAttack("20,000 submits over a socket", 4, func(i int) (frames []string) {
			for n := range 5000 {
				frames = append(frames, fmt.Sprintf(`{"op":"submit","id":%d,"thread":"ws-%d-%d","text":"x"}`, n, i, n%10))
			}
			return frames
		}),
		frameAttack("unknown operations", 8, func(int) (frames []string) {
			for n := range 5000 {
				frames = append(frames, fmt.Sprintf(`{"op":%q,"id":%d}`, strings.Repeat("x", 200), n))
			}
			return frames
		}),
		{"pings, and pieces of a frame without end", func(ctx context.Context, t *target) error {
			return t.hold(ctx, 20, 4*time.Second, func(_ context.Context, c net.Conn, i int) {
				if !write(c,
					"GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
						"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer "+t.token+"\r\n\r\n") {
					return
				}
				piece := "\x89\x80\x00\x00\x00\x00" // a ping, masked with zeros
				if i%2 == 0 {
					piece = "\x01\x81\x00\x00\x00\x00 " // the beginning of a text message
				}
				for range 2000 {
					if !write(c, strings.Repeat(piece, 100)) {
						return
					}
					piece = strings.Replace(piece, "\x01\x81", "\x00\x81", 1) // a continuation
				}
			})
		}},
	}
}

// tools returns the attacks over MCP.
func tools() []attack {
	accept := []string{"Accept", "application/json, text/event-stream"}
	call := func(name string, count, atOnce int, body string) attack {
		return bodyAttack(name, count, atOnce, true, "/mcp", body, accept...)
	}
	return []attack{
		call("an unknown tool", 20, 4,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"none","arguments":{}}}`),
		call("a call without parameters", 20, 4, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":null}`),
		call("nested arguments", 4, 2,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"inbox_peek","arguments":`+nested(4*mebibyte-200)+
				`}}`),
		call("a batch of 50,000", 2, 2, "["+strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"},`, 50_000)+
			`{"jsonrpc":"2.0","id":1,"method":"ping"}]`),
		call("2,000 sessions", 2000, 16,
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`),
	}
}
