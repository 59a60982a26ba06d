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

// socket is an open socket.
type socket struct {
	conn   *websocket.Conn
	number int // sockets opened later have higher numbers
}

// envelope is an envelope to acknowledge.
type envelope struct {
	id        string
	kind      string // events_api or interactive
	payload   map[string]any
	attempts  int
	socket    *socket   // last sent on; nil if not sent yet
	sentAt    time.Time // time of the last delivery
	firstSent time.Time // time of the first delivery
}

// ackTimeout is how long an acknowledgement may take before the envelope is sent again, on any
// open socket.
const ackTimeout = 3 * time.Second

// openConnection answers apps.connections.open. The socket's URL has the host that the client
// used. mu must be held.
func (p *Platform) openConnection(host string) (any, *apiError) {
	if p.socketModeOff {
		return nil, newAPIError("socket_mode_disabled")
	}
	ticket := fmt.Sprintf("ticket%d", p.nextNumber())
	p.tickets[ticket] = true
	return map[string]any{"url": "ws://" + host + "/link/?ticket=" + ticket + "&app_id=" + AppID}, nil
}

// serveSocket serves a socket.
func (p *Platform) serveSocket(w http.ResponseWriter, r *http.Request) {
	p.HangIfFrozen(r)
	ticket := r.URL.Query().Get("ticket")
	p.mu.Lock()
	good := p.tickets[ticket]
	delete(p.tickets, ticket)
	p.mu.Unlock()
	if !good {
		http.Error(w, "bad ticket", http.StatusForbidden)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // clients send no Origin
		OnPingReceived: func(context.Context, []byte) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return !p.Frozen()
		},
	})
	if err != nil {
		return // Accept has responded
	}
	s := &socket{conn: conn}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	p.mu.Lock()
	s.number = p.nextNumber()
	p.sockets[s] = true
	p.Notify()
	hello := map[string]any{
		"type": "hello", "num_connections": len(p.sockets) + p.otherSockets,
		"connection_info": map[string]any{"app_id": AppID},
		"debug_info":      map[string]any{"host": "applink-1", "approximate_connection_time": 18060},
	}
	p.mu.Unlock()
	defer p.removeSocket(s)
	var delivering sync.WaitGroup
	if p.writeFrame(ctx, s, hello) == nil {
		delivering.Go(func() { p.deliver(ctx, s) })
		p.readAcks(ctx, s)
	}
	_ = conn.CloseNow() // it may be closed already
	cancel()
	delivering.Wait()
}

// removeSocket removes a socket. Its unacknowledged envelopes are sent again on another one.
func (p *Platform) removeSocket(s *socket) {
	p.Update(func() {
		delete(p.sockets, s)
		for _, e := range p.envelopes {
			if e.socket == s {
				e.socket = nil
			}
		}
	})
}

func (p *Platform) writeFrame(ctx context.Context, s *socket, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err) // a mistake in a test
	}
	return s.conn.Write(ctx, websocket.MessageText, raw)
}

// deliver sends pending envelopes one after the other.
func (p *Platform) deliver(ctx context.Context, s *socket) {
	for {
		body := p.nextDelivery(ctx, s)
		if body == nil || p.writeFrame(ctx, s, body) != nil {
			return
		}
	}
}

// nextDelivery waits for an envelope to send on a socket and returns its JSON, nil when ctx ends.
func (p *Platform) nextDelivery(ctx context.Context, s *socket) map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ctx.Err() == nil {
		for _, e := range p.envelopes {
			if !p.Frozen() && p.mayDeliver(e, s) {
				return e.deliver(s)
			}
		}
		p.Wait(ctx, time.After(ackTimeout/10))
	}
	return nil
}

// mayDeliver reports whether an envelope is due on a socket: it was not sent, or not acknowledged in
// time. Another socket comes before the one that did not acknowledge it, or a dead socket could
// receive every repetition. mu must be held.
func (p *Platform) mayDeliver(e *envelope, s *socket) bool {
	switch waited := time.Since(e.sentAt); {
	case e.socket == nil:
		return true
	case e.socket == s && len(p.sockets) > 1:
		return waited > 2*ackTimeout
	default:
		return waited > ackTimeout
	}
}

// deliver assigns an envelope to a socket and returns its JSON. mu must be held.
func (e *envelope) deliver(s *socket) map[string]any {
	e.socket, e.sentAt = s, time.Now()
	if e.attempts == 0 {
		e.firstSent = e.sentAt
	}
	body := map[string]any{"type": e.kind, "envelope_id": e.id, "payload": e.payload,
		"accepts_response_payload": e.kind == "interactive"}
	if e.attempts > 0 {
		body["retry_attempt"], body["retry_reason"] = e.attempts, "timeout"
	}
	e.attempts++
	return body
}

// readAcks reads acknowledgements from a socket until it ends.
func (p *Platform) readAcks(ctx context.Context, s *socket) {
	for {
		_, raw, err := s.conn.Read(ctx)
		if err != nil {
			return
		}
		var in struct {
			ID string `json:"envelope_id"`
		}
		if json.Unmarshal(raw, &in) != nil || in.ID == "" {
			return // Slack closes a socket after any other message
		}
		p.Update(func() {
			if p.Frozen() || p.loseAcks {
				return
			}
			for _, e := range p.envelopes {
				if e.id == in.ID {
					p.acks = append(p.acks, Ack{Kind: e.kind, After: time.Since(e.firstSent), Attempts: e.attempts,
						Payload: e.payload})
				}
			}
			p.envelopes = slices.DeleteFunc(p.envelopes, func(e *envelope) bool { return e.id == in.ID })
		})
	}
}

// push queues an envelope. mu must be held.
func (p *Platform) push(kind string, payload map[string]any) {
	e := &envelope{id: fmt.Sprintf("%08x-0000-4000-8000-000000000000", p.nextNumber()), kind: kind, payload: payload}
	p.envelopes = append(p.envelopes, e)
	p.last = e
	p.Notify()
}

// event queues an envelope with an event. mu must be held.
func (p *Platform) event(body map[string]any) {
	p.push("events_api", map[string]any{
		"type": "event_callback", "team_id": TeamID, "api_app_id": AppID, "event": body,
		"event_id": fmt.Sprintf("Ev%d", p.nextNumber()),
	})
}

// Push queues an envelope of any kind.
func (p *Platform) Push(kind string, payload map[string]any) {
	p.Update(func() { p.push(kind, payload) })
}

// Redeliver sends the latest envelope once more, even if it was acknowledged.
func (p *Platform) Redeliver() {
	p.Update(func() {
		again := *p.last
		again.socket = nil
		p.envelopes = append(p.envelopes, &again)
	})
}

// LoseAcks ignores acknowledgements from now on, or accepts them again.
func (p *Platform) LoseAcks(lost bool) {
	p.Update(func() { p.loseAcks = lost })
}

// Ack is the acknowledgement of an envelope.
type Ack struct {
	Kind     string
	After    time.Duration // since the first delivery
	Attempts int           // deliveries
	Payload  map[string]any
}

// Acks returns the acknowledgements so far.
func (p *Platform) Acks() []Ack {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.acks)
}

// Pending returns the number of unacknowledged envelopes.
func (p *Platform) Pending() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.envelopes)
}

// MaxAttempts returns the highest number of deliveries of a pending envelope.
func (p *Platform) MaxAttempts() (most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.envelopes {
		most = max(most, e.attempts)
	}
	return most
}

// DropPending drops the pending envelopes, as Slack does after some minutes.
func (p *Platform) DropPending() {
	p.Update(func() { p.envelopes = nil })
}

// Sockets returns the number of open sockets.
func (p *Platform) Sockets() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sockets)
}

// Disconnect sends a disconnect message with a reason. link_disabled disables Socket Mode.
func (p *Platform) Disconnect(reason string) {
	p.mu.Lock()
	p.socketModeOff = p.socketModeOff || reason == "link_disabled"
	var open []*socket
	for s := range p.sockets {
		open = append(open, s)
	}
	p.mu.Unlock()
	for _, s := range open {
		// it may be closed already
		_ = p.writeFrame(context.Background(), s, map[string]any{"type": "disconnect", "reason": reason})
	}
}

// CloseOldest closes the oldest open socket.
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
		_ = oldest.conn.Close(websocket.StatusGoingAway, "refresh") // it may be closed already
	}
}

// SetOtherSockets sets how many sockets of the app other processes hold.
func (p *Platform) SetOtherSockets(sockets int) {
	p.Update(func() { p.otherSockets = sockets })
}
