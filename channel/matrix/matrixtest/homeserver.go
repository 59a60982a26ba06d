// Package matrixtest provides Matrix for tests: users of the Client-Server API, a proxy that
// injects faults, and two homeservers: an in-memory fake and a real Dendrite.
package matrixtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/channel/platformtest"
)

// Homeserver is an in-memory fake on loopback. It enforces the same limits and permissions as a
// real one.
type Homeserver struct {
	*platformtest.Server
	URL string

	routes http.Handler

	// Owned by mu.
	mu       sync.Mutex
	users    map[string]*user
	sessions map[string]session // by token
	rooms    map[string]*room
	sent     map[string]string // event ids by device, path and transaction id
	files    map[string]file
	events   int // number of events in all rooms
	ids      int // number of other ids created
}

type user struct{ password, name string }

type session struct{ user, device string }

type room struct {
	id     string
	events []*storedEvent
	state  map[[2]string]*storedEvent // by event type and state key
}

// storedEvent is an event with its position in the global order.
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

// Start starts a homeserver that stops when the test ends.
func Start(t testing.TB) *Homeserver {
	t.Helper()
	h := &Homeserver{users: map[string]*user{}, sessions: map[string]session{}, rooms: map[string]*room{},
		sent: map[string]string{}, files: map[string]file{}}
	h.routes = h.newRoutes()
	h.Server = platformtest.NewServer(t, &h.mu, h)
	h.URL = "http://" + h.Addr
	h.Up(t)
	return h
}

// String counts the calls.
func (h *Homeserver) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.CountCalls()
}

// ForgetTransactions drops all transaction ids, as real homeservers do after some time.
func (h *Homeserver) ForgetTransactions() {
	h.Update(func() { h.sent = map[string]string{} })
}

// Rollback removes the last n events of a room, like a restore from an older backup.
func (h *Homeserver) Rollback(id string, n int) {
	h.Update(func() {
		r := h.rooms[id]
		r.events = r.events[:len(r.events)-n]
		h.events -= n
		h.Notify()
	})
}

// newID returns a new id. The caller holds mu, as for all following methods.
func (h *Homeserver) newID(sign string) string {
	h.ids++
	return fmt.Sprintf("%s%06dabcdefghijklmnopqrstuvwxyz", sign, h.ids)
}

// appendEvent appends an event to a room.
func (h *Homeserver) appendEvent(r *room, by session, kind string, key *string, content map[string]any) *storedEvent {
	h.events++
	body := map[string]any{
		"event_id": h.newID("$"), "type": kind, "sender": by.user, "origin_server_ts": time.Now().UnixMilli(),
		"content": content, "room_id": r.id,
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
	h.Notify()
	return e
}

// membership returns a user's membership in the room.
func (r *room) membership(user string) string {
	if e := r.state[[2]string{"m.room.member", user}]; e != nil {
		m, _ := e.content()["membership"].(string)
		return m
	}
	return ""
}

// setMembership appends a membership event for a user.
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

// visible returns the events that a user may see. A user who left sees the events up to that point.
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

// maySend reports whether a user's power level allows messages.
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

// view returns the event as a device sees it.
func (e *storedEvent) view(to session) map[string]any {
	body := maps.Clone(e.body)
	if e.transaction != "" && e.device == to.device {
		body["unsigned"] = map[string]any{"transaction_id": e.transaction}
	}
	return body
}

// filter selects events.
type filter struct {
	Limit   int      `json:"limit"`
	Types   []string `json:"types"`
	Senders []string `json:"senders"`
}

func (f filter) matches(e *storedEvent) bool {
	return (f.Types == nil || slices.Contains(f.Types, e.kind())) && (f.Senders == nil ||
		slices.Contains(f.Senders, e.body["sender"].(string)))
}

// parseToken parses a token with a prefix. ok is false if it is invalid.
func parseToken(token, sign string) (int, bool) {
	n := 0
	rest, ok := strings.CutPrefix(token, sign)
	if !ok {
		return 0, false
	}
	_, err := fmt.Sscanf(rest, "%d", &n)
	return n, err == nil
}

// apiError is an error response. Its code is the errcode.
type apiError = platformtest.Error

func newError(code int, name, format string, args ...any) *apiError {
	return &apiError{Status: code, Code: name, Message: fmt.Sprintf(format, args...)}
}

// Respond implements [platformtest.Dialect].
func (h *Homeserver) Respond(w http.ResponseWriter, result any, refused *apiError) {
	respond(w, result, refused)
}

// respond writes a result or an error as the Client-Server API defines them.
func respond(w http.ResponseWriter, result any, refused *apiError) {
	w.Header().Set("Content-Type", "application/json")
	if refused != nil {
		body := map[string]any{"errcode": refused.Code, "error": refused.Message}
		if refused.RetryAfter != 0 {
			body["retry_after_ms"] = int(refused.RetryAfter * 1000)
		}
		result = body
		w.WriteHeader(refused.Status)
	}
	_ = json.NewEncoder(w).Encode(result) // the client may be gone
}
