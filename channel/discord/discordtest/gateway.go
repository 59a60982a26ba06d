package discordtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/coder/websocket"
)

// session is a session of the bot. Its fields are owned by the platform's mu.
type session struct {
	id      string
	token   string
	events  []map[string]any // frames; events[i] has the sequence number i+1
	conn    *gatewayConn     // the connection that uses it; nil if none
	invalid bool             // cannot be resumed
}

// gatewayConn is a connection to the gateway. Its fields are owned by the platform's mu.
type gatewayConn struct {
	host    string   // address that the bot used
	session *session // nil before Identify or Resume
	sent    int      // number of the session's events sent
	out     []map[string]any
	code    int // close code; 0 keeps it open
	reason  string
	cut     bool // break the connection
	frozen  bool // nothing gets through
	gone    bool // the client has left
}

// serveGateway serves a connection to the gateway.
func (p *Platform) serveGateway(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	gone := p.noResume && r.URL.Path == "/resume"
	p.mu.Unlock()
	if gone {
		http.NotFound(w, r)
		return
	}
	p.HangIfFrozen(r)
	if q := r.URL.Query(); q.Get("v") != "10" || q.Get("encoding") != "json" {
		http.Error(w, "no such version", http.StatusBadRequest)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // Accept has responded
	}
	defer func() { _ = conn.CloseNow() }() // it may be closed already
	l := &gatewayConn{host: r.Host}
	p.mu.Lock()
	l.out = []map[string]any{{"op": 10, "d": map[string]any{"heartbeat_interval": p.interval.Milliseconds()}}}
	p.links[l] = true
	p.mu.Unlock()
	read := make(chan struct{})
	reading, stop := context.WithCancel(context.Background())
	go func() { // ends with the connection
		defer close(read)
		p.readFrames(reading, l, conn)
	}()
	p.writeFrames(r.Context(), l, conn)
	stop()
	<-read
	p.Update(func() {
		delete(p.links, l)
		if l.session != nil && l.session.conn == l {
			l.session.conn = nil
		}
	})
}

// takeFrames returns the frames to send. mu must be held.
func (l *gatewayConn) takeFrames() []map[string]any {
	out := l.out
	l.out = nil
	if l.session != nil && l.session.conn == l {
		out = append(out, l.session.events[l.sent:]...)
		l.sent = len(l.session.events)
	}
	return out
}

// writeFrames sends pending frames until the connection ends. Those of a frozen connection are lost.
func (p *Platform) writeFrames(ctx context.Context, l *gatewayConn, conn *websocket.Conn) {
	for ctx.Err() == nil {
		p.mu.Lock()
		out, lost := l.takeFrames(), l.frozen
		code, reason, end := l.code, l.reason, l.cut || l.gone || lost && !p.Frozen()
		if !end && (lost || len(out) == 0 && code == 0) {
			p.Wait(ctx, nil)
		}
		p.mu.Unlock()
		if !lost {
			for _, f := range out {
				raw, err := json.Marshal(f)
				if err != nil {
					panic(err) // a mistake in a test
				}
				if conn.Write(ctx, websocket.MessageText, raw) != nil {
					return
				}
			}
			if code != 0 {
				_ = conn.Close(websocket.StatusCode(code), reason) // the client may be gone
				return
			}
		}
		if end {
			return
		}
	}
}

// readFrames handles the frames of a client until it leaves.
func (p *Platform) readFrames(ctx context.Context, l *gatewayConn, conn *websocket.Conn) {
	conn.SetReadLimit(4096) // Discord's limit
	for {
		_, raw, err := conn.Read(ctx)
		p.mu.Lock()
		if err != nil {
			l.gone = true
			if end := websocket.CloseStatus(err); l.session != nil && (end == 1000 || end == 1001) {
				l.session.invalid = true
			}
			p.Notify()
			p.mu.Unlock()
			return
		}
		var f struct {
			Op   int             `json:"op"`
			Data json.RawMessage `json:"d"`
		}
		if json.Unmarshal(raw, &f) != nil {
			l.code, l.reason = 4002, "Error while decoding payload."
		} else if !l.frozen {
			p.handleFrame(l, f.Op, f.Data)
		}
		p.Notify()
		p.mu.Unlock()
	}
}

// handleFrame handles one frame. mu must be held.
func (p *Platform) handleFrame(l *gatewayConn, op int, data json.RawMessage) {
	switch op {
	case 1:
		var last int64
		_ = json.Unmarshal(data, &last) // null means no event yet
		p.heartbeatSeqs = append(p.heartbeatSeqs, last)
		l.out = append(l.out, map[string]any{"op": 11})
	case 2:
		var in struct {
			Token      string         `json:"token"`
			Intents    int            `json:"intents"`
			Properties map[string]any `json:"properties"`
		}
		switch err := json.Unmarshal(data, &in); {
		case err != nil || len(in.Properties) != 3:
			l.code, l.reason = 4002, "Error while decoding payload."
		case l.session != nil:
			l.code, l.reason = 4005, "Already authenticated."
		case in.Token != p.token:
			l.code, l.reason = 4004, "Authentication failed."
		case in.Intents&^(1<<26-1) != 0:
			l.code, l.reason = 4013, "Invalid intent(s)."
		case in.Intents&(1<<15) != 0 && !p.messageContent:
			l.code, l.reason = 4014, "Disallowed intent(s)."
		default:
			p.identify(l)
		}
	case 6:
		var in struct {
			Token string `json:"token"`
			ID    string `json:"session_id"`
			Seq   int    `json:"seq"`
		}
		switch err := json.Unmarshal(data, &in); {
		case err != nil:
			l.code, l.reason = 4002, "Error while decoding payload."
		case in.Token != p.token || p.sessions[in.ID] != nil && p.sessions[in.ID].token != in.Token:
			l.code, l.reason = 4004, "Authentication failed."
		default:
			p.resume(l, p.sessions[in.ID], in.Seq)
		}
	default:
		l.code, l.reason = 4001, "Unknown opcode."
	}
}

// identify starts a session. mu must be held.
func (p *Platform) identify(l *gatewayConn) {
	p.starts--
	p.started++
	s := &session{id: fmt.Sprintf("session-%d", p.started), token: p.token, conn: l}
	p.sessions[s.id], l.session = s, s
	s.add("READY", map[string]any{
		"v": 10, "session_id": s.id, "resume_gateway_url": "ws://" + l.host + "/resume",
		"user":        map[string]any{"id": BotID, "username": Username, "bot": true},
		"application": map[string]any{"id": AppID, "flags": 1 << 19},
		"guilds":      []any{map[string]any{"id": ServerID, "unavailable": true}},
	})
	if !p.outage {
		s.add("GUILD_CREATE", p.guild())
	}
}

// resume resumes a session. mu must be held.
func (p *Platform) resume(l *gatewayConn, s *session, seq int) {
	switch {
	case s == nil || s.invalid:
		l.out = append(l.out, map[string]any{"op": 9, "d": false})
		return
	case seq > len(s.events):
		l.code, l.reason = 4007, "Invalid seq."
		return
	}
	p.resumed++
	s.conn, l.session, l.sent = l, s, seq
	s.add("RESUMED", map[string]any{})
}

func (s *session) add(kind string, body map[string]any) {
	s.events = append(s.events, map[string]any{"op": 0, "t": kind, "s": len(s.events) + 1, "d": body})
}

// push sends an event to all sessions. mu must be held.
func (p *Platform) push(kind string, body map[string]any) {
	for _, s := range p.sessions {
		if !s.invalid {
			s.add(kind, maps.Clone(body))
		}
	}
	p.Notify()
}

// guild builds the JSON of the server. mu must be held.
func (p *Platform) guild() map[string]any {
	channels, threads := []any{}, []any{}
	for _, c := range p.channels {
		switch {
		case c.Type == typePrivate || c.hidden:
		case c.Parent != "":
			threads = append(threads, c.body())
		default:
			channels = append(channels, c.body())
		}
	}
	return map[string]any{
		"id": ServerID, "name": "team", "channels": channels, "threads": threads,
		"joined_at": time.Now().Format(time.RFC3339),
		"roles": []any{
			map[string]any{"id": ServerID, "name": "@everyone"},
			map[string]any{"id": RoleID, "name": Username, "tags": map[string]any{"bot_id": BotID}},
		},
	}
}
