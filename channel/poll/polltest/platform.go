// Package polltest is a platform for tests: it hands out messages when it is asked
// for them, and fails as it is told.
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

// Workspace and Token are those of the one workspace there is.
const (
	Workspace = "ws-1"
	Token     = "secret-of-the-workspace"
)

// Fault is how one request fails.
type Fault struct {
	Status     int           // answered instead
	RetryAfter string        // header
	Body       string        // answered with Status, or with 200
	Hang       bool          // never answered
	Half       bool          // the answer breaks off
	Lose       bool          // the request is taken, and its answer lost
	Hold       chan struct{} // the request is taken, and answered when this is closed
}

// Reply is a message that the platform has taken.
type Reply struct {
	To   string // "canvas:WORKSPACE" or "peer:ID"
	From string // workspace it was sent from
	Text string
	Key  string // of a delegation
}

// Platform is the server. Its methods may be called concurrently.
type Platform struct {
	URL string

	server *http.Server

	// Owned by mu.
	mu            sync.Mutex
	changed       chan struct{} // closed when something has happened
	quit          context.CancelFunc
	rows          []json.RawMessage
	ids           []string // of the rows; "" for one without
	written       []time.Time
	forgottenRows int // rows whose ids are no cursors any more
	seq           int64
	replies       []Reply
	acks          []int64
	heartbeats    []map[string]any
	calls         map[string]int
	faults        map[string][]Fault
	newestFirst   bool // the newest row first, as some servers do
}

// New starts a platform that ends with the test.
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
	go func() { _ = server.Serve(ln) }() // ends with Down, and says nothing else
}

// Up lets the platform listen again, where it was.
func (p *Platform) Up(t testing.TB) { t.Helper(); p.up(t, strings.TrimPrefix(p.URL, "http://")) }

// Down refuses connections from now on.
func (p *Platform) Down() {
	p.mu.Lock()
	server, quit := p.server, p.quit
	p.mu.Unlock()
	quit()
	_ = server.Close() // it may be down already
}

// Fail has the next requests of an endpoint fail, one fault each.
func (p *Platform) Fail(endpoint string, faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[endpoint] = append(p.faults[endpoint], faults...)
}

// ClearFaults has nothing fail any more.
func (p *Platform) ClearFaults() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.faults)
}

// NewestFirst has pages list the newest row first.
func (p *Platform) NewestFirst() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newestFirst = true
}

// ForgetCursors makes the ids of all rows so far unknown as cursors.
func (p *Platform) ForgetCursors() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgottenRows = len(p.rows)
}

// Row is the fields of a message.
type Row map[string]any

// Canvas is what a person writes.
func Canvas(id, text string) Row {
	return Row{"activity_id": id, "kind": "canvas_user", "text": text, "arrival_workspace_id": Workspace}
}

// Peer is what another agent delegates.
func Peer(id, peer, text string) Row {
	return Row{
		"activity_id": id, "kind": "peer_agent", "peer_id": peer, "source_id": peer, "arrival_workspace_id": Workspace,
		"parts": []any{map[string]any{"type": "text", "text": text}},
	}
}

// Add writes rows. Each gets a seq and a time, unless it has them.
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

// AddRaw writes a row of any JSON.
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

// signalChange wakes who waits. It is within mu.
func (p *Platform) signalChange() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Traffic is what the platform has got.
type Traffic struct {
	Replies    []Reply
	Acks       []int64
	Heartbeats []map[string]any
	Calls      map[string]int // by endpoint
}

// Acked is the highest acknowledgement.
func (s Traffic) Acked() int64 {
	if len(s.Acks) == 0 {
		return 0
	}
	return slices.Max(s.Acks)
}

// Texts are the replies, as "TO: TEXT".
func (s Traffic) Texts() []string {
	var texts []string
	for _, r := range s.Replies {
		texts = append(texts, r.To+": "+r.Text)
	}
	return texts
}

// Traffic tells what the platform has got so far.
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

// Seq is the seq of the last row.
func (p *Platform) Seq() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seq
}

// WaitFor waits until what the platform has got is as it should be.
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
			t.Fatalf("the platform never saw %s; it has %+v", what, seen)
		}
	}
}

// WaitAcked waits for an acknowledgement of all rows up to seq.
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

// serve answers a request, or fails as it was told.
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
		_, _ = w.Write([]byte(fault.Body)) // who asked may have gone
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
	_, _ = w.Write(raw) // who asked may have gone
	if fault.Half {
		_ = http.NewResponseController(w).Flush() // so that the half arrives, if anybody is there
		panic(http.ErrAbortHandler)
	}
}
