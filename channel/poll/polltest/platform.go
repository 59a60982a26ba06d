// Package polltest provides a platform for tests that is polled for messages and injects faults.
package polltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
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

// Fault describes how one request fails.
type Fault struct {
	Status     int           // response status
	RetryAfter string        // response header
	Body       string        // response body; status 200 if Status is 0
	Hang       bool          // never respond
	Half       bool          // cut the response in half
	Lose       bool          // process the request and drop the response
	Hold       chan struct{} // process the request and respond after the channel is closed
}

// Reply is a message received by the platform.
type Reply struct {
	To   string // "canvas:WORKSPACE" or "peer:ID"
	From string // sending workspace
	Text string
	Key  string // idempotency key of a delegation
}

// Platform is the server. It is safe for concurrent use.
type Platform struct {
	URL string

	server *http.Server

	// Owned by mu.
	mu            sync.Mutex
	changed       chan struct{} // closed and replaced on every change
	quit          context.CancelFunc
	rows          []json.RawMessage
	ids           []string // by row; "" without an id
	written       []time.Time
	forgottenRows int // number of rows whose ids are no longer valid cursors
	seq           int64
	replies       []Reply
	acks          []int64
	heartbeats    []map[string]any
	calls         map[string]int
	faults        map[string][]Fault
	newestFirst   bool // list the newest row first, as some servers do
}

// New starts a platform that stops when the test ends.
func New(t testing.TB) *Platform {
	t.Helper()
	p := &Platform{changed: make(chan struct{}), calls: map[string]int{}, faults: map[string][]Fault{}}
	p.up(t, "127.0.0.1:0")
	t.Cleanup(p.Down)
	return p
}

// up listens at an address.
func (p *Platform) up(t testing.TB, at string) {
	t.Helper()
	ln, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	ctx, quit := context.WithCancel(context.Background())
	server := &http.Server{Handler: p.handler(ctx), ReadHeaderTimeout: time.Minute}
	p.mu.Lock()
	p.URL, p.server, p.quit = "http://"+ln.Addr().String(), server, quit
	p.mu.Unlock()
	go func() { _ = server.Serve(ln) }() // returns after Down
}

// Up listens on the same address again.
func (p *Platform) Up(t testing.TB) { t.Helper(); p.up(t, strings.TrimPrefix(p.URL, "http://")) }

// Down refuses connections.
func (p *Platform) Down() {
	p.mu.Lock()
	server, quit := p.server, p.quit
	p.mu.Unlock()
	quit()
	_ = server.Close() // it may be down already
}

// Fail queues faults for the next requests to an endpoint.
func (p *Platform) Fail(endpoint string, faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[endpoint] = append(p.faults[endpoint], faults...)
}

// ClearFaults removes all queued faults.
func (p *Platform) ClearFaults() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.faults)
}

// NewestFirst makes pages list the newest row first.
func (p *Platform) NewestFirst() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newestFirst = true
}

// ForgetCursors invalidates the ids of all existing rows as cursors.
func (p *Platform) ForgetCursors() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgottenRows = len(p.rows)
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
	p.mu.Lock()
	defer p.mu.Unlock()
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
	p.signalChange()
}

// AddRaw adds a row with any JSON.
func (p *Platform) AddRaw(raw string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seq++
	p.add("", json.RawMessage(raw))
	p.signalChange()
}

func (p *Platform) add(id string, raw json.RawMessage) {
	p.rows, p.ids, p.written = append(p.rows, raw), append(p.ids, id), append(p.written, time.Now())
}

// signalChange wakes waiting calls. The caller holds mu.
func (p *Platform) signalChange() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Traffic is what the platform has received.
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
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.traffic()
}

func (p *Platform) traffic() Traffic {
	calls := map[string]int{}
	for k, n := range p.calls {
		calls[k] = n
	}
	return Traffic{Replies: slices.Clone(p.replies), Acks: slices.Clone(p.acks), Heartbeats: slices.Clone(p.heartbeats), Calls: calls}
}

// Seq returns the seq of the last row.
func (p *Platform) Seq() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seq
}

// WaitFor waits until good returns true for the traffic.
func (p *Platform) WaitFor(t testing.TB, what string, good func(Traffic) bool) Traffic {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		p.mu.Lock()
		seen, changed := p.traffic(), p.changed
		p.mu.Unlock()
		if good(seen) {
			return seen
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("condition not met in time: %s; the traffic is %+v", what, seen)
		}
	}
}

// WaitAcked waits until all rows up to seq are acknowledged.
func (p *Platform) WaitAcked(t testing.TB, seq int64) Traffic {
	t.Helper()
	return p.WaitFor(t, fmt.Sprintf("an acknowledgement of %d", seq), func(s Traffic) bool { return s.Acked() >= seq })
}

func (p *Platform) handler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern, endpoint string, f func(*http.Request, map[string]any) (int, any)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { p.serve(ctx, w, r, endpoint, f) })
	}
	handle("GET /workspaces/{id}/activity", Activity, p.activity)
	handle("POST /workspaces/{id}/activity/ack", Ack, p.ack)
	handle("POST /workspaces/{id}/notify", Notify, p.notify)
	handle("POST /workspaces/{id}/delegate", Delegate, p.delegate)
	handle("POST /registry/heartbeat", Heartbeat, p.heartbeat)
	return mux
}

// serve handles a request or applies a fault.
func (p *Platform) serve(ctx context.Context, w http.ResponseWriter, r *http.Request, endpoint string, f func(*http.Request, map[string]any) (int, any)) {
	var body map[string]any
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	p.mu.Lock()
	p.calls[endpoint]++
	var fault Fault
	if left := p.faults[endpoint]; len(left) > 0 {
		fault, p.faults[endpoint] = left[0], left[1:]
	}
	status, answer := http.StatusUnauthorized, any(map[string]string{"error": "who is " + r.Header.Get("Authorization") + "?"})
	takes := fault == (Fault{}) || fault.Lose || fault.Half || fault.Hold != nil
	if r.Header.Get("Authorization") == "Bearer "+Token && takes {
		status, answer = f(r, body)
	}
	p.signalChange()
	p.mu.Unlock()
	if fault.Hold != nil {
		select {
		case <-fault.Hold:
		case <-ctx.Done():
		}
	}
	switch {
	case fault.Hang:
		select {
		case <-r.Context().Done():
		case <-ctx.Done():
		}
		return
	case fault.Lose:
		panic(http.ErrAbortHandler)
	case fault.Status != 0 || fault.Body != "":
		if fault.RetryAfter != "" {
			w.Header().Set("Retry-After", fault.RetryAfter)
		}
		if fault.Status != 0 {
			w.WriteHeader(fault.Status)
		}
		_, _ = w.Write([]byte(fault.Body)) // the client may be gone
		return
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		panic(errors.Join(errors.New("a mistake in a test"), err))
	}
	w.Header().Set("Content-Type", "application/json")
	if fault.Half {
		w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
		raw = raw[:len(raw)/2]
	}
	w.WriteHeader(status)
	_, _ = w.Write(raw) // the client may be gone
	if fault.Half {
		_ = http.NewResponseController(w).Flush() // best effort: deliver the first half
		panic(http.ErrAbortHandler)
	}
}
