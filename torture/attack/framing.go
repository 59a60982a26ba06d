package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// rawAttack returns an attack that writes bytes to count connections and reads answers for a
// moment.
func rawAttack(name string, count int, bytes func(token string) string) attack {
	return attack{name, func(ctx context.Context, t *target) error {
		said := bytes(t.token)
		return t.hold(ctx, count, 2*time.Second, func(_ context.Context, c net.Conn, _ int) {
			go func() { _, _ = io.Copy(io.Discard, c) }() // ends when hold closes c
			write(c, said)
		})
	}}
}

// framing returns the attacks by HTTP/1.1 framing.
func framing() []attack {
	post := func(token, headers, body string) string {
		return "POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + token +
			"\r\nContent-Type: application/json\r\n" + headers + "\r\n" + body
	}
	return []attack{
		rawAttack("headers of 1 MB", 50, func(string) string {
			return "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + strings.Repeat("x", mebibyte) + "\r\n\r\n"
		}),
		rawAttack("20,000 headers", 50, func(string) string {
			return "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n" + strings.Repeat("A: b\r\n", 20_000) + "\r\n"
		}),
		rawAttack("an address of 60 KB", 200, func(token string) string {
			return "GET /v1/threads/" + strings.Repeat("%2e", 20_000) +
				" HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + token + "\r\n\r\n"
		}),
		rawAttack("extensions of chunks", 20, func(token string) string {
			return post(token, "Transfer-Encoding: chunked\r\n",
				strings.Repeat("1;"+strings.Repeat("x", 3000)+"\r\n \r\n", 1000)+"0\r\n\r\n")
		}),
		rawAttack("chunks of one byte", 10, func(token string) string {
			return post(token, "Transfer-Encoding: chunked\r\n", strings.Repeat("1\r\n \r\n", 500_000)+"0\r\n\r\n")
		}),
		rawAttack("trailers", 50, func(token string) string {
			return post(token, "Transfer-Encoding: chunked\r\nTrailer: A\r\n", "2\r\n{}\r\n0\r\n"+
				strings.Repeat("A: b\r\n", 100_000)+"\r\n")
		}),
		rawAttack("two lengths", 100, func(token string) string {
			return post(token, "Content-Length: 2\r\nContent-Length: 40\r\n", "{}") + post(token,
				"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n{}")
		}),
		rawAttack("1,000 requests in one piece", 20, func(token string) string {
			return strings.Repeat("GET /v1/threads HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "+token+"\r\n\r\n", 1000)
		}),
		rawAttack("an upgrade to nothing", 200, func(token string) string {
			return "GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\nAuthorization: Bearer " + token + "\r\n\r\n" + strings.Repeat("\xff", 100_000)
		}),
		{"1,000 wrong tokens", func(ctx context.Context, t *target) error {
			return t.repeatRequest(ctx, 1000, 16, "wrong", http.MethodGet, "/v1/threads?limit=%d", nil)
		}},
		{"a range a thousand times", func(ctx context.Context, t *target) error {
			return t.repeatRequest(ctx, 200, 8, "", http.MethodGet, "/chat/?%d", nil, "Range",
				"bytes="+strings.TrimSuffix(strings.Repeat("0-,", 1000), ","))
		}},
		{"the description, 300 times", func(ctx context.Context, t *target) error {
			return t.repeatRequest(ctx, 300, 16, "", http.MethodGet, "/openapi.json?%d", nil)
		}},
	}
}
