package server_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// FuzzSocket checks that any first message, with or without a token, is answered or closes the
// socket with a close frame and without a panic, and that the next socket works.
func FuzzSocket(f *testing.F) {
	for i, frame := range []string{
		`{"op":"auth","id":1,"token":"wrong"}`, `{"op":"auth","id":1,"token":"` + token + `"}`,
		`{"op":"submit","id":"a","thread":"t","text":"hello","agent":"echo"}`,
		`{"op":"submit","id":"a","messages":[{"parts":[null]}]}`,
		`{"op":"subscribe","id":2,"thread":"t","after":"12:40"}`,
		`{"op":"subscribe","id":2,"thread":"t","run":"r","after":"-1"}`,
		`{"op":"unsubscribe","id":2,"sub":"x"}`, `{"op":"resume","id":"x","thread":"t","run":"r"}`,
		`{"op":"cancel","id":"x","run":"r","children":true}`,
		`{"op":"decide","id":0,"ticket":"k","decision":"answer","answer":{"a":null}}`, `{"op":"ping","id":"last"}`,
		`{"op":"no","id":1}`,
		`{"op":"ping"}`, `{"op":1,"id":[]}`, `null`, `[]`, `{`, ``, "\xff", strings.Repeat("[", 10001),
		strings.Repeat(" ", 3<<20),
	} {
		f.Add(i%2 == 0, false, []byte(frame))
		f.Add(true, i%3 == 0, []byte(frame))
	}
	f.Fuzz(func(t *testing.T, known, binary bool, frame []byte) {
		s := start(t)
		var headers []string
		if known {
			headers = append(headers, "Authorization: Bearer "+token)
		}
		p := s.dial(headers...)
		kind := websocket.MessageText
		if binary {
			kind = websocket.MessageBinary
		}
		// The server may close the socket before it has read everything; the loop below reads
		// the close frame.
		_ = p.conn.Write(p.ctx, kind, frame)
		_ = p.conn.Write(p.ctx, websocket.MessageText, []byte(`{"op":"ping","id":"last"}`))
		for {
			_, raw, err := p.conn.Read(p.ctx)
			if err != nil {
				if end, ok := errors.AsType[websocket.CloseError](err); !ok || end.Code == websocket.StatusInternalError {
					t.Errorf("%.200q ends the socket with %v, want a close frame with the reason", frame, err)
				}
				break
			}
			var h serverFrame
			if err := json.Unmarshal(raw, &h); err != nil {
				t.Fatalf("response to %.200q: %.200q: %v", frame, raw, err)
			}
			if h.Error != nil && h.Error.Code == "internal" {
				t.Errorf("error of %.200q: %s", frame, raw)
			}
			if string(h.ID) == `"last"` {
				break
			}
		}
		next := s.dialWithToken()
		next.send(`{"op":"ping","id":"next"}`)
		if got := next.next(); string(got.ID) != `"next"` || got.Error != nil {
			t.Errorf("next socket after %.200q: %v", frame, got)
		}
		for _, one := range []*peer{p, next} {
			_ = one.conn.CloseNow() // it may be closed already
		}
		s.stop() // a subscription may panic after the last answer; Serve waits for it
		ended := <-s.served
		s.served <- ended // for the cleanup
		if log := s.log.String(); strings.Contains(log, "panic recovered") || strings.Contains(log, "panic: ") {
			t.Errorf("%.200q panics: %s", frame, log)
		}
	})
}
