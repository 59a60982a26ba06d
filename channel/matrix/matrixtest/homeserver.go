// Package matrixtest is Matrix for tests: people who talk through the Client-Server
// API, a way to a homeserver that can fail, and two homeservers, one that is made here
// and a real one.
package matrixtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Homeserver is one on loopback, in memory. It refuses what homeservers refuse.
type Homeserver struct {
	URL string

	// Owned by mu.
	mu       sync.Mutex
	changed  chan struct{} // closed when something has happened
	users    map[string]*user
	sessions map[string]session // by token
	rooms    map[string]*room
	sent     map[string]string // events by device, path and transaction
	files    map[string]file
	events   int // how many there are, in all rooms
	ids      int // how many other things were
}

type user struct{ password, name string }

type session struct{ user, device string }

type room struct {
	id     string
	events []*storedEvent
	state  map[[2]string]*storedEvent // by kind and key
}

// storedEvent is an event at a place in the order of all.
type storedEvent struct {
	position    int
	room        *room
	body        map[string]any
	device      string
	transaction string
}

func (e *storedEvent) kind() string {
	kind, _ := e.body["type"].(string)
	return kind
}

func (e *storedEvent) content() map[string]any {
	content, _ := e.body["content"].(map[string]any)
	return content
}

type file struct {
	kind    string
	content []byte
}

// Start starts one that ends with the test.
func Start(t testing.TB) *Homeserver {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &Homeserver{
		URL: "http://" + ln.Addr().String(), changed: make(chan struct{}), users: map[string]*user{}, sessions: map[string]session{},
		rooms: map[string]*room{}, sent: map[string]string{}, files: map[string]file{},
	}
	ctx, quit := context.WithCancel(context.Background())
	server := &http.Server{Handler: h.handler(), ReadHeaderTimeout: time.Minute, BaseContext: func(net.Listener) context.Context { return ctx }}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(ln) }) // ends with Close, and says nothing else
	t.Cleanup(func() {
		quit()
		_ = server.Close() // there is nothing to be done about it
		serving.Wait()
	})
	return h
}

// ForgetTransactions forgets all transaction ids, as homeservers do some time.
func (h *Homeserver) ForgetTransactions() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent = map[string]string{}
}

// Rollback takes back the last events of a room, as a backup of before does that is
// played in.
func (h *Homeserver) Rollback(id string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rooms[id]
	r.events = r.events[:len(r.events)-n]
	h.events -= n
	h.notify()
}

// notify wakes who waits. It is within mu, as all that follows.
func (h *Homeserver) notify() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *Homeserver) newID(sign string) string {
	h.ids++
	return fmt.Sprintf("%s%06dabcdefghijklmnopqrstuvwxyz", sign, h.ids)
}

// appendEvent appends an event to a room.
func (h *Homeserver) appendEvent(r *room, by session, kind string, key *string, content map[string]any) *storedEvent {
	h.events++
	body := map[string]any{
		"event_id": h.newID("$"), "type": kind, "sender": by.user, "origin_server_ts": time.Now().UnixMilli(), "content": content, "room_id": r.id,
	}
	e := &storedEvent{position: h.events, room: r, body: body, device: by.device}
	if key != nil {
		body["state_key"] = *key
		at := [2]string{kind, *key}
		if before := r.state[at]; before != nil {
			body["unsigned"] = map[string]any{"prev_content": before.content(), "replaces_state": before.body["event_id"]}
		}
		r.state[at] = e
	}
	r.events = append(r.events, e)
	h.notify()
	return e
}

// membership somebody's membership of a room.
func (r *room) membership(user string) string {
	if e := r.state[[2]string{"m.room.member", user}]; e != nil {
		m, _ := e.content()["membership"].(string)
		return m
	}
	return ""
}

// setMembership changes somebody's membership.
func (h *Homeserver) setMembership(r *room, by session, who, membership string, direct bool) {
	content := map[string]any{"membership": membership}
	if u := h.users[who]; u != nil && u.name != "" && membership == "join" {
		content["displayname"] = u.name
	}
	if direct {
		content["is_direct"] = true
	}
	h.appendEvent(r, by, "m.room.member", &who, content)
}

// visible are the events of a room that somebody may see: of who has left, those
// until then.
func (r *room) visible(user string) []*storedEvent {
	switch last := r.state[[2]string{"m.room.member", user}]; {
	case last == nil, r.membership(user) == "invite":
		return nil
	case r.membership(user) == "join":
		return r.events
	default:
		return slices.DeleteFunc(slices.Clone(r.events), func(e *storedEvent) bool { return e.position > last.position })
	}
}

// maySend reports whether somebody's power is enough for a message.
func (r *room) maySend(user string) bool {
	e := r.state[[2]string{"m.room.power_levels", ""}]
	if e == nil {
		return true
	}
	level := func(in any, name string) float64 {
		m, _ := in.(map[string]any)
		n, _ := m[name].(float64)
		return n
	}
	has := level(e.content(), "users_default")
	if users, _ := e.content()["users"].(map[string]any); users[user] != nil {
		has = level(users, user)
	}
	return has >= level(e.content(), "events_default")
}

// view is an event as somebody's device is shown it.
func (e *storedEvent) view(to session) map[string]any {
	body := maps.Clone(e.body)
	if e.transaction != "" && e.device == to.device {
		body["unsigned"] = map[string]any{"transaction_id": e.transaction}
	}
	return body
}

// filter says which events are wanted.
type filter struct {
	Limit   int      `json:"limit"`
	Types   []string `json:"types"`
	Senders []string `json:"senders"`
}

func (f filter) matches(e *storedEvent) bool {
	return (f.Types == nil || slices.Contains(f.Types, e.kind())) && (f.Senders == nil || slices.Contains(f.Senders, e.body["sender"].(string)))
}

// parseToken reads a token; false if it is none.
func parseToken(token, sign string) (int, bool) {
	n := 0
	rest, ok := strings.CutPrefix(token, sign)
	if !ok {
		return 0, false
	}
	_, err := fmt.Sscanf(rest, "%d", &n)
	return n, err == nil
}

// apiError is how a homeserver says no.
type apiError struct {
	code    int
	errcode string
	message string
}

func newError(code int, name, format string, args ...any) *apiError {
	return &apiError{code: code, errcode: name, message: fmt.Sprintf(format, args...)}
}

func (r *apiError) write(w http.ResponseWriter) {
	writeJSON(w, r.code, map[string]any{"errcode": r.errcode, "error": r.message})
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // who asked may have gone
}
