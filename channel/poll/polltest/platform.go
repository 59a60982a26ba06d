// Package polltest provides a platform for tests that is polled for messages and injects faults.
package polltest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"mailroom/channel/platformtest"
)

// Endpoints of the platform.
const (
	Activity  = "activity"
	Ack       = "ack"
	Notify    = "notify"
	Delegate  = "delegate"
	Heartbeat = "heartbeat"
)

// Workspace and Token are the only workspace and its token.
const (
	Workspace = "ws-1"
	Token     = "secret-of-the-workspace"
)

// Fault is the type that all fakes share. Its Message is the field "error" of the response.
type Fault = platformtest.Fault

// Reply is a message received by the platform.
type Reply struct {
	To   string // "canvas:WORKSPACE" or "peer:ID"
	From string // sending workspace
	Text string
	Key  string // idempotency key of a delegation
}

// Platform is the server. It is safe for concurrent use.
type Platform struct {
	*platformtest.Server
	URL string

	// Owned by mu.
	mu            sync.Mutex
	rows          []json.RawMessage
	ids           []string // by row; "" without an id
	written       []time.Time
	forgottenRows int // number of rows whose ids are no longer valid cursors
	seq           int64
	replies       []Reply
	acks          []int64
	heartbeats    []map[string]any
	newestFirst   bool // list the newest row first, as some servers do
}

// New starts a platform that stops when the test ends.
func New(t testing.TB) *Platform {
	t.Helper()
	p := &Platform{}
	p.Server = platformtest.NewServer(t, &p.mu, p)
	p.URL = "http://" + p.Addr
	p.Up(t)
	return p
}

// NewestFirst makes pages list the newest row first.
func (p *Platform) NewestFirst() {
	p.Update(func() { p.newestFirst = true })
}

// ForgetCursors invalidates the ids of all existing rows as cursors.
func (p *Platform) ForgetCursors() {
	p.Update(func() { p.forgottenRows = len(p.rows) })
}

// Row holds the fields of a message.
type Row map[string]any

// Canvas returns a message of a person on the canvas.
func Canvas(id, text string) Row {
	return Row{"activity_id": id, "kind": "canvas_user", "text": text, "arrival_workspace_id": Workspace}
}

// Peer returns a task delegated by another agent.
func Peer(id, peer, text string) Row {
	return Row{
		"activity_id": id, "kind": "peer_agent", "peer_id": peer, "source_id": peer, "arrival_workspace_id": Workspace,
		"parts": []any{map[string]any{"type": "text", "text": text}},
	}
}

// Add adds rows. A row without seq and created_at gets them.
func (p *Platform) Add(rows ...Row) {
	p.Update(func() {
		for _, r := range rows {
			p.seq++
			full := Row{"seq": p.seq, "created_at": time.Now().UTC().Format(time.RFC3339Nano)}
			for k, v := range r {
				full[k] = v
			}
			raw, err := json.Marshal(full)
			if err != nil {
				panic(err) // a mistake in a test
			}
			id, _ := full["activity_id"].(string)
			p.add(id, raw)
		}
	})
}

// AddRaw adds a row with any JSON.
func (p *Platform) AddRaw(raw string) {
	p.Update(func() {
		p.seq++
		p.add("", json.RawMessage(raw))
	})
}

func (p *Platform) add(id string, raw json.RawMessage) {
	p.rows, p.ids, p.written = append(p.rows, raw), append(p.ids, id), append(p.written, time.Now())
}

// Traffic has the requests that the platform has received.
type Traffic struct {
	Replies    []Reply
	Acks       []int64
	Heartbeats []map[string]any
	Calls      map[string]int // by endpoint
}

// Acked returns the highest acknowledged seq.
func (s Traffic) Acked() int64 {
	if len(s.Acks) == 0 {
		return 0
	}
	return slices.Max(s.Acks)
}

// Texts returns the replies as "TO: TEXT".
func (s Traffic) Texts() []string {
	var texts []string
	for _, r := range s.Replies {
		texts = append(texts, r.To+": "+r.Text)
	}
	return texts
}

// Traffic returns what the platform has received so far.
func (p *Platform) Traffic() Traffic {
	received := p.Calls("")
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := map[string]int{}
	for _, c := range received {
		calls[c.Name]++
	}
	return Traffic{Replies: slices.Clone(p.replies), Acks: slices.Clone(p.acks), Heartbeats: slices.Clone(p.heartbeats),
		Calls: calls}
}

// Seq returns the seq of the last row.
func (p *Platform) Seq() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seq
}

// WaitFor waits until good returns true for the traffic.
func (p *Platform) WaitFor(t testing.TB, what string, good func(Traffic) bool) (seen Traffic) {
	t.Helper()
	p.Server.WaitFor(t, what, func() bool {
		seen = p.Traffic()
		return good(seen)
	})
	return seen
}

// String describes the traffic.
func (p *Platform) String() string { return fmt.Sprintf("%+v", p.Traffic()) }

// WaitAcked waits until all rows up to seq are acknowledged.
func (p *Platform) WaitAcked(t testing.TB, seq int64) Traffic {
	t.Helper()
	return p.WaitFor(t, fmt.Sprintf("an acknowledgement of %d", seq), func(s Traffic) bool { return s.Acked() >= seq })
}

// ServeHTTP implements [platformtest.Dialect].
func (p *Platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mux := http.NewServeMux()
	handle := func(pattern, endpoint string, f handler) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, endpoint, f) })
	}
	handle("GET /workspaces/{id}/activity", Activity, p.activity)
	handle("POST /workspaces/{id}/activity/ack", Ack, p.ack)
	handle("POST /workspaces/{id}/notify", Notify, p.notify)
	handle("POST /workspaces/{id}/delegate", Delegate, p.delegate)
	handle("POST /registry/heartbeat", Heartbeat, p.heartbeat)
	mux.ServeHTTP(w, r)
}

// serve answers a request.
func (p *Platform) serve(w http.ResponseWriter, r *http.Request, endpoint string, f handler) {
	var body map[string]any
	if r.Method == http.MethodPost && json.NewDecoder(r.Body).Decode(&body) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	p.Serve(w, r, endpoint, body, func() (any, *platformtest.Error) {
		if auth := r.Header.Get("Authorization"); auth != "Bearer "+Token {
			return newError(http.StatusUnauthorized, "who is %s?", auth)
		}
		return f(r, body)
	})
}

// Respond implements [platformtest.Dialect].
func (p *Platform) Respond(w http.ResponseWriter, result any, refused *platformtest.Error) {
	w.Header().Set("Content-Type", "application/json")
	if _, ok := result.(queued); ok {
		w.WriteHeader(http.StatusAccepted)
	}
	if refused != nil {
		if refused.RetryAfter != 0 {
			w.Header().Set("Retry-After", fmt.Sprint(refused.RetryAfter))
		}
		w.WriteHeader(refused.Status)
		result = map[string]string{"error": refused.Message}
	}
	_ = json.NewEncoder(w).Encode(result) // the client may be gone
}
