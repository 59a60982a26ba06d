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
	made     int // how many other things were
}

type user struct{ password, name string }

type session struct{ user, device string }

type room struct {
	id     string
	events []*entry
	state  map[[2]string]*entry // by kind and key
}

// entry is an event at a place in the order of all.
type entry struct {
	at          int
	room        *room
	body        map[string]any
	device      string
	transaction string
}

func (e *entry) kind() string {
	kind, _ := e.body["type"].(string)
	return kind
}

func (e *entry) content() map[string]any {
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

// Forget forgets all transaction ids, as homeservers do some time.
func (h *Homeserver) Forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent = map[string]string{}
}

// SetBack takes back the last events of a room, as a backup of before does that is
// played in.
func (h *Homeserver) SetBack(id string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rooms[id]
	r.events = r.events[:len(r.events)-n]
	h.events -= n
	h.tell()
}

// tell wakes who waits. It is within mu, as all that follows.
func (h *Homeserver) tell() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *Homeserver) name(sign string) string {
	h.made++
	return fmt.Sprintf("%s%06dabcdefghijklmnopqrstuvwxyz", sign, h.made)
}

// add appends an event to a room.
func (h *Homeserver) add(r *room, by session, kind string, key *string, content map[string]any) *entry {
	h.events++
	body := map[string]any{
		"event_id": h.name("$"), "type": kind, "sender": by.user, "origin_server_ts": time.Now().UnixMilli(), "content": content, "room_id": r.id,
	}
	e := &entry{at: h.events, room: r, body: body, device: by.device}
	if key != nil {
		body["state_key"] = *key
		at := [2]string{kind, *key}
		if before := r.state[at]; before != nil {
			body["unsigned"] = map[string]any{"prev_content": before.content(), "replaces_state": before.body["event_id"]}
		}
		r.state[at] = e
	}
	r.events = append(r.events, e)
	h.tell()
	return e
}

// is somebody's membership of a room.
func (r *room) is(user string) string {
	if e := r.state[[2]string{"m.room.member", user}]; e != nil {
		m, _ := e.content()["membership"].(string)
		return m
	}
	return ""
}

// member changes somebody's membership.
func (h *Homeserver) member(r *room, by session, who, membership string, direct bool) {
	content := map[string]any{"membership": membership}
	if u := h.users[who]; u != nil && u.name != "" && membership == "join" {
		content["displayname"] = u.name
	}
	if direct {
		content["is_direct"] = true
	}
	h.add(r, by, "m.room.member", &who, content)
}

// visible are the events of a room that somebody may see: of who has left, those
// until then.
func (r *room) visible(user string) []*entry {
	switch last := r.state[[2]string{"m.room.member", user}]; {
	case last == nil, r.is(user) == "invite":
		return nil
	case r.is(user) == "join":
		return r.events
	default:
		return slices.DeleteFunc(slices.Clone(r.events), func(e *entry) bool { return e.at > last.at })
	}
}

// may reports whether somebody's power is enough for a message.
func (r *room) may(user string) bool {
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

// shown is an event as somebody's device is shown it.
func (e *entry) shown(to session) map[string]any {
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

func (f filter) wants(e *entry) bool {
	return (f.Types == nil || slices.Contains(f.Types, e.kind())) && (f.Senders == nil || slices.Contains(f.Senders, e.body["sender"].(string)))
}

// place reads a token; false if it is none.
func place(token, sign string) (int, bool) {
	n := 0
	rest, ok := strings.CutPrefix(token, sign)
	if !ok {
		return 0, false
	}
	_, err := fmt.Sscanf(rest, "%d", &n)
	return n, err == nil
}

// refusal is how a homeserver says no.
type refusal struct {
	code  int
	name  string
	words string
}

func no(code int, name, format string, args ...any) *refusal {
	return &refusal{code: code, name: name, words: fmt.Sprintf(format, args...)}
}

func (r *refusal) write(w http.ResponseWriter) {
	answer(w, r.code, map[string]any{"errcode": r.name, "error": r.words})
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // who asked may have gone
}
