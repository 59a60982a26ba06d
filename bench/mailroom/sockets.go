package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/coder/websocket"
)

// readSocket runs one WebSocket reader. It calls begun when it has subscribed.
func (r *readers) readSocket(ctx context.Context, what ReaderOptions, begun func()) error {
	conn, err := subscribe(ctx, http.DefaultClient, what)
	if err != nil {
		return err
	}
	defer conn.CloseNow() // the error does not matter
	if _, said, err := conn.Read(ctx); err != nil {
		return fmt.Errorf("read the acknowledgement: %w: %s", err, said)
	}
	begun()
	upto := 0
	for left := what.Runs; left > 0; {
		_, raw, err := conn.Read(ctx)
		if err != nil {
			if ctx.Err() == nil {
				r.cutOff.Add(1)
			}
			return nil
		}
		var f struct {
			Op    string
			Delta piece
		}
		if err := json.Unmarshal(raw, &f); err != nil {
			return fmt.Errorf("read a frame: %w", err)
		}
		switch f.Op {
		case "delta":
			upto = r.delta(f.Delta, upto)
		case "settled":
			if upto, left = 0, left-1; r.onRunEnd() != nil {
				return nil // the parent process has ended
			}
		case "error":
			return fmt.Errorf("subscription failed: %s", raw)
		}
	}
	return nil
}

// subscribe opens a WebSocket and subscribes to the thread.
func subscribe(ctx context.Context, web *http.Client, what ReaderOptions) (*websocket.Conn, error) {
	header := http.Header{"Authorization": {"Bearer " + what.Token}}
	conn, _, err := websocket.Dial(ctx, what.URL+"/v1/ws", &websocket.DialOptions{HTTPClient: web, HTTPHeader: header})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(-1)
	ask, err := json.Marshal(map[string]string{"op": "subscribe", "id": "1", "thread": what.Thread})
	if err == nil {
		err = conn.Write(ctx, websocket.MessageText, ask)
	}
	if err != nil {
		_ = conn.CloseNow() // the error does not matter
		return nil, err
	}
	return conn, nil
}
