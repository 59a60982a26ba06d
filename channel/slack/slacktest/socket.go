package slacktest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// socket is one that is open.
type socket struct {
	conn   *websocket.Conn
	number int // grows
}

// envelope is one that is to be acknowledged.
type envelope struct {
	id      string
	kind    string // events_api or interactive
	payload map[string]any
	tries   int
	on      *socket   // that it was sent on; nil: it is to be sent
	at      time.Time // when it was
	made    time.Time // when it was sent for the first time
}

// patience is how long an acknowledgement may take before an envelope is sent again,
// on whichever socket there is.
const patience = 3 * time.Second

// open answers apps.connections.open: the socket is at the host that was asked. It is
// within mu.
func (p *Platform) open(host string) (any, *refusal) {
	if p.off {
		return nil, no("socket_mode_disabled")
	}
	ticket := fmt.Sprintf("ticket%d", p.number())
	p.tickets[ticket] = true
	return map[string]any{"url": "ws://" + host + "/link/?ticket=" + ticket + "&app_id=" + AppID}, nil
}

// link serves a socket.
func (p *Platform) link(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	ticket := r.URL.Query().Get("ticket")
	p.mu.Lock()
	good, frozen := p.tickets[ticket], p.frozen
	delete(p.tickets, ticket)
	p.mu.Unlock()
	if frozen != nil {
		hang(ctx, r, frozen)
	}
	if !good {
		http.Error(w, "bad ticket", http.StatusForbidden)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // wherever it says that it comes from
		OnPingReceived: func(context.Context, []byte) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.frozen == nil
		},
	})
	if err != nil {
		return // it has answered
	}
	s := &socket{conn: conn}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	s.number = p.number()
	p.sockets[s] = true
	p.tell()
	hello := map[string]any{
		"type": "hello", "num_connections": len(p.sockets) + p.elsewhere, "connection_info": map[string]any{"app_id": AppID},
		"debug_info": map[string]any{"host": "applink-1", "approximate_connection_time": 18060},
	}
	p.mu.Unlock()
	defer p.gone(s)
	var delivering sync.WaitGroup
	if p.write(ctx, s, hello) == nil {
		delivering.Go(func() { p.deliver(ctx, s) })
		p.acknowledged(ctx, s)
	}
	_ = conn.CloseNow() // it may be closed
	cancel()
	delivering.Wait()
}

// gone forgets a socket. What was sent on it and not acknowledged is to be sent again.
func (p *Platform) gone(s *socket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sockets, s)
	for _, e := range p.envelopes {
		if e.on == s {
			e.on = nil
		}
	}
	p.tell()
}

func (p *Platform) write(ctx context.Context, s *socket, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err) // a mistake in a test
	}
	return s.conn.Write(ctx, websocket.MessageText, raw)
}

// deliver sends what is to be sent, one envelope after the other.
func (p *Platform) deliver(ctx context.Context, s *socket) {
	for {
		p.mu.Lock()
		changed := p.changed
		var next *envelope
		for _, e := range p.envelopes {
			if p.frozen == nil && (e.on == nil || time.Since(e.at) > patience) {
				next = e
				break
			}
		}
		var body map[string]any
		if next != nil {
			next.on, next.at = s, time.Now()
			if next.tries == 0 {
				next.made = next.at
			}
			body = map[string]any{"type": next.kind, "envelope_id": next.id, "payload": next.payload, "accepts_response_payload": next.kind == "interactive"}
			if next.tries > 0 {
				body["retry_attempt"], body["retry_reason"] = next.tries, "timeout"
			}
			next.tries++
		}
		p.mu.Unlock()
		if next == nil {
			select {
			case <-changed:
			case <-time.After(patience / 10):
			case <-ctx.Done():
				return
			}
			continue
		}
		if p.write(ctx, s, body) != nil {
			return
		}
	}
}

// acknowledged reads what comes on a socket until it ends.
func (p *Platform) acknowledged(ctx context.Context, s *socket) {
	for {
		_, raw, err := s.conn.Read(ctx)
		if err != nil {
			return
		}
		var in struct {
			ID string `json:"envelope_id"`
		}
		if json.Unmarshal(raw, &in) != nil || in.ID == "" {
			return // the platform closes the socket of who says something else
		}
		p.mu.Lock()
		if p.frozen == nil && !p.deaf {
			for _, e := range p.envelopes {
				if e.id == in.ID {
					p.acks = append(p.acks, Ack{Kind: e.kind, After: time.Since(e.made), Tries: e.tries, Payload: e.payload})
				}
			}
			p.envelopes = slices.DeleteFunc(p.envelopes, func(e *envelope) bool { return e.id == in.ID })
			p.tell()
		}
		p.mu.Unlock()
	}
}

// push makes an envelope. It is within mu.
func (p *Platform) push(kind string, payload map[string]any) {
	e := &envelope{id: fmt.Sprintf("%08x-0000-4000-8000-000000000000", p.number()), kind: kind, payload: payload}
	p.envelopes = append(p.envelopes, e)
	p.last = e
	p.tell()
}

// event makes an envelope with an event. It is within mu.
func (p *Platform) event(body map[string]any) {
	p.push("events_api", map[string]any{
		"type": "event_callback", "team_id": TeamID, "api_app_id": AppID, "event": body, "event_id": fmt.Sprintf("Ev%d", p.number()),
	})
}

// Push makes an envelope of any kind.
func (p *Platform) Push(kind string, payload map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.push(kind, payload)
}

// Again sends the last envelope another time, although it was acknowledged.
func (p *Platform) Again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	again := *p.last
	again.on = nil
	p.envelopes = append(p.envelopes, &again)
	p.tell()
}

// LoseAcknowledgements has those that come from now on be lost, or not any more.
func (p *Platform) LoseAcknowledgements(lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = lost
}

// Ack is the acknowledgement of an envelope.
type Ack struct {
	Kind    string
	After   time.Duration // since the envelope was sent for the first time
	Tries   int           // times it was sent
	Payload map[string]any
}

// Acks are the acknowledgements so far.
func (p *Platform) Acks() []Ack {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.acks)
}

// Pending are the envelopes that nobody has acknowledged.
func (p *Platform) Pending() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.envelopes)
}

// Tries is how often an envelope that waits was sent, at most.
func (p *Platform) Tries() (most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.envelopes {
		most = max(most, e.tries)
	}
	return most
}

// Forget sends none of the envelopes that wait any more, as after some minutes.
func (p *Platform) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.envelopes = nil
	p.tell()
}

// Sockets is how many are open.
func (p *Platform) Sockets() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sockets)
}

// Disconnect asks who is connected to connect anew, for a reason in the platform's
// words. link_disabled turns Socket Mode off.
func (p *Platform) Disconnect(reason string) {
	p.mu.Lock()
	p.off = p.off || reason == "link_disabled"
	var open []*socket
	for s := range p.sockets {
		open = append(open, s)
	}
	p.mu.Unlock()
	for _, s := range open {
		_ = p.write(context.Background(), s, map[string]any{"type": "disconnect", "reason": reason}) // it may be closed
	}
}

// CloseOldest closes the socket that was opened first.
func (p *Platform) CloseOldest() {
	p.mu.Lock()
	var oldest *socket
	for s := range p.sockets {
		if oldest == nil || s.number < oldest.number {
			oldest = s
		}
	}
	p.mu.Unlock()
	if oldest != nil {
		_ = oldest.conn.Close(websocket.StatusGoingAway, "refresh") // it may be closed
	}
}

// Elsewhere has somebody else hold sockets of the app.
func (p *Platform) Elsewhere(sockets int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.elsewhere = sockets
}

// hang waits until what is frozen is so no more, and cuts the connection.
func hang(ctx context.Context, r *http.Request, thaw <-chan struct{}) {
	select {
	case <-r.Context().Done():
	case <-ctx.Done():
	case <-thaw: // never for a call that hangs by itself
	}
	panic(http.ErrAbortHandler)
}
