package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"mailroom"
	"mailroom/api"
	"mailroom/entry"
)

// socketReader follows many threads over one WebSocket at a time, and reconnects from each thread's
// cursor.
type socketReader struct {
	accounts map[string]*account // by thread
	at       target
	silence  time.Duration

	connections int // owned by the goroutine that follows
}

// frame is a frame from the server.
type frame struct {
	Op     string          `json:"op"`
	ID     string          `json:"id"`
	Sub    string          `json:"sub"`
	Cursor string          `json:"cursor"`
	Run    string          `json:"run"`
	Status mailroom.Status `json:"status"`
	Entry  *mailroom.Entry `json:"entry"`
	Delta  *entry.Delta    `json:"delta"`
	Error  *api.Problem    `json:"error"`
}

// follow reads until ctx ends.
func (r *socketReader) follow(ctx context.Context) {
	for ctx.Err() == nil {
		r.connections++
		r.once(ctx)
		pause(ctx, 10*time.Millisecond)
	}
}

// once reads over one connection, until it breaks or is silent.
func (r *socketReader) once(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(r.silence, cancel)
	defer silent.Stop()
	beat := func(context.Context, []byte) bool { silent.Reset(r.silence); return true }
	conn, resp, err := websocket.Dial(ctx, r.at.url+"/v1/ws", &websocket.DialOptions{
		HTTPClient: r.at.http, HTTPHeader: http.Header{"Authorization": {"Bearer " + r.at.token}}, OnPingReceived: beat,
	})
	if err != nil {
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols &&
			resp.StatusCode != http.StatusServiceUnavailable {
			r.bad("the handshake was answered with %s", resp.Status)
		}
		return
	}
	defer conn.CloseNow() // an error of closing the reading side does not matter
	conn.SetReadLimit(-1)
	for thread, a := range r.accounts {
		ask, err := json.Marshal(map[string]string{"op": "subscribe", "id": thread, "thread": thread, "after": a.at()})
		if err != nil || conn.Write(ctx, websocket.MessageText, ask) != nil {
			return
		}
	}
	subs, ended := map[string]*account{}, map[string]string{}
	for {
		_, raw, err := conn.Read(ctx)
		if err != nil {
			return
		}
		silent.Reset(r.silence)
		var m frame
		if err := json.Unmarshal(raw, &m); err != nil {
			// The library accepts a truncated frame as whole if the connection was cut between two
			// reads of the frame, for example right behind its header. The truncation shows because
			// nothing follows.
			if _, _, cut := conn.Read(ctx); cut == nil {
				r.bad("%v in %.200s", err, raw)
			}
			return
		}
		if m.Op == "ack" {
			subs[m.Sub] = r.accounts[m.ID]
			continue
		}
		a := subs[m.Sub]
		if a == nil {
			r.bad("%.200s has no subscription", raw)
			return
		}
		a.handle(m, raw, ended)
	}
}

func (r *socketReader) bad(format string, args ...any) {
	for _, a := range r.accounts {
		a.note(format, args...)
		return
	}
}

// handle handles a frame for one subscription. ended has, by subscription, the end of a run that
// arrived as an entry and must arrive as a frame next.
func (a *account) handle(m frame, raw []byte, ended map[string]string) {
	end := ended[m.Sub]
	delete(ended, m.Sub)
	if got := fmt.Sprintf("%s %s", m.Run, m.Status); (end != "" || m.Op == "settled") &&
		(got != end || m.Op != "settled") {
		a.note("got %.200s, want the end %q", raw, end)
	}
	switch {
	case m.Op == "entry" && m.Entry != nil:
		a.entry(*m.Entry, m.Cursor)
		if status, ok := strings.CutPrefix(m.Entry.Kind, "run."); ok && mailroom.Status(status).Finished() {
			ended[m.Sub] = m.Entry.Run + " " + status
		}
	case m.Op == "delta" && m.Delta != nil:
		a.delta(*m.Delta, m.Cursor)
	case m.Op != "settled" && !(m.Op == "error" && m.Error != nil && m.Error.Code == mailroom.CodeUnavailable): // at shutdown
		a.note("%.200s came", raw)
	}
}
