package matrixtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// call is one that somebody makes, within the homeserver's mu.
type call struct {
	*http.Request
	by  session
	in  map[string]any
	raw []byte
}

// text is a part of what was sent.
func (c *call) text(name string) string {
	s, _ := c.in[name].(string)
	return s
}

const base = "/_matrix/client/v3"

// handler serves all there is.
func (h *Homeserver) handler() http.Handler {
	mux := http.NewServeMux()
	open := map[string]func(*call) (any, *refusal){
		"GET /_matrix/client/versions": func(*call) (any, *refusal) { return map[string]any{"versions": []string{"v1.11"}}, nil },
		"POST " + base + "/register":   h.register,
		"POST " + base + "/login":      h.login,
		"GET /.well-known/matrix/client": func(*call) (any, *refusal) {
			return map[string]any{"m.homeserver": map[string]any{"base_url": h.URL}}, nil
		},
		"GET " + base + "/profile/{user}/displayname": h.profile,
	}
	for pattern, f := range open {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, f, false) })
	}
	for pattern, f := range map[string]func(*call) (any, *refusal){
		"POST " + base + "/logout":                           h.logout,
		"GET " + base + "/account/whoami":                    h.whoami,
		"PUT " + base + "/profile/{user}/displayname":        h.rename,
		"POST " + base + "/createRoom":                       h.createRoom,
		"POST " + base + "/rooms/{room}/{change}":            h.change,
		"PUT " + base + "/rooms/{room}/send/{kind}/{txn}":    h.send,
		"PUT " + base + "/rooms/{room}/redact/{event}/{txn}": h.redact,
		"PUT " + base + "/rooms/{room}/state/{kind}/{$}":     h.setState,
		"GET " + base + "/rooms/{room}/state/{kind}/{key}":   h.state,
		"GET " + base + "/rooms/{room}/joined_members":       h.joinedMembers,
		"GET " + base + "/rooms/{room}/messages":             h.messages,
		"GET " + base + "/rooms/{room}/event/{event}":        h.event,
		"PUT " + base + "/rooms/{room}/typing/{user}":        h.typing,
		"GET " + base + "/sync":                              h.sync,
		"POST /_matrix/media/v3/upload":                      h.upload,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, f, true) })
	}
	for _, begin := range []string{"/_matrix/client/v1/media/download", "/_matrix/media/v3/download"} {
		mux.HandleFunc("GET "+begin+"/{server}/{id}", h.download)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		no(404, "M_UNRECOGNIZED", "Unrecognized request").write(w)
	})
	return mux
}

// session is whose token a request has.
func (h *Homeserver) session(r *http.Request) (session, *refusal) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return session{}, no(401, "M_MISSING_TOKEN", "Missing access token")
	}
	s, ok := h.sessions[token]
	if !ok {
		return session{}, no(401, "M_UNKNOWN_TOKEN", "Unknown token")
	}
	return s, nil
}

func (h *Homeserver) serve(w http.ResponseWriter, r *http.Request, f func(*call) (any, *refusal), private bool) {
	c := &call{Request: r, in: map[string]any{}}
	var err error
	if c.raw, err = io.ReadAll(r.Body); err != nil {
		return // who asked has gone
	}
	h.mu.Lock()
	var out any
	var refuse *refusal
	if private {
		c.by, refuse = h.session(r)
	}
	if refuse == nil && len(c.raw) > 0 && r.Header.Get("Content-Type") == "application/json" && string(c.raw) != "null" && json.Unmarshal(c.raw, &c.in) != nil {
		refuse = no(400, "M_NOT_JSON", "The request body could not be decoded into valid JSON")
	}
	if refuse == nil {
		out, refuse = f(c)
	}
	h.mu.Unlock()
	if refuse != nil {
		refuse.write(w)
		return
	}
	answer(w, http.StatusOK, out)
}

func (h *Homeserver) register(c *call) (any, *refusal) {
	id := "@" + c.text("username") + ":test.example"
	if h.users[id] != nil {
		return nil, no(400, "M_USER_IN_USE", "Desired user ID is already taken.")
	}
	h.users[id] = &user{password: c.text("password"), name: c.text("username")}
	return h.begin(id), nil
}

func (h *Homeserver) login(c *call) (any, *refusal) {
	who, _ := c.in["identifier"].(map[string]any)
	id, _ := who["user"].(string)
	if !strings.HasPrefix(id, "@") {
		id = "@" + id + ":test.example"
	}
	if u := h.users[id]; u == nil || u.password != c.text("password") || c.text("type") != "m.login.password" {
		return nil, no(403, "M_FORBIDDEN", "The username or password was incorrect or the account does not exist.")
	}
	return h.begin(id), nil
}

// begin begins a session.
func (h *Homeserver) begin(id string) any {
	token, device := h.name("syt_"), h.name("D")
	h.sessions[token] = session{user: id, device: device}
	return map[string]any{"user_id": id, "access_token": token, "device_id": device}
}

func (h *Homeserver) logout(c *call) (any, *refusal) {
	for token, s := range h.sessions {
		if s == c.by {
			delete(h.sessions, token)
		}
	}
	h.tell()
	return struct{}{}, nil
}

func (h *Homeserver) whoami(c *call) (any, *refusal) {
	return map[string]any{"user_id": c.by.user, "device_id": c.by.device}, nil
}

func (h *Homeserver) profile(c *call) (any, *refusal) {
	u := h.users[c.PathValue("user")]
	if u == nil {
		return nil, no(404, "M_NOT_FOUND", "Profile was not found")
	}
	return map[string]any{"displayname": u.name}, nil
}

func (h *Homeserver) rename(c *call) (any, *refusal) {
	h.users[c.by.user].name = c.text("displayname")
	return struct{}{}, nil
}

func (h *Homeserver) createRoom(c *call) (any, *refusal) {
	r := &room{id: h.name("!") + ":test.example", state: map[[2]string]*entry{}}
	h.rooms[r.id] = r
	blank := ""
	h.add(r, c.by, "m.room.create", &blank, map[string]any{"creator": c.by.user, "room_version": "10"})
	h.member(r, c.by, c.by.user, "join", false)
	initial, _ := c.in["initial_state"].([]any)
	for _, one := range initial {
		s, _ := one.(map[string]any)
		kind, _ := s["type"].(string)
		content, _ := s["content"].(map[string]any)
		h.add(r, c.by, kind, &blank, content)
	}
	others, _ := c.in["invite"].([]any)
	direct, _ := c.in["is_direct"].(bool)
	for _, o := range others {
		h.member(r, c.by, o.(string), "invite", direct)
	}
	if c.text("preset") == "public_chat" {
		h.add(r, c.by, "m.room.join_rules", &blank, map[string]any{"join_rule": "public"})
	}
	return map[string]any{"room_id": r.id}, nil
}

// in is a room that who calls is in.
func (h *Homeserver) in(c *call) (*room, *refusal) {
	r := h.rooms[c.PathValue("room")]
	if r == nil {
		return nil, no(404, "M_NOT_FOUND", "Unknown room")
	}
	if r.is(c.by.user) != "join" {
		return nil, no(403, "M_FORBIDDEN", "User %s not in room %s", c.by.user, r.id)
	}
	return r, nil
}

// change changes who is in a room.
func (h *Homeserver) change(c *call) (any, *refusal) {
	r := h.rooms[c.PathValue("room")]
	if r == nil {
		return nil, no(404, "M_NOT_FOUND", "Unknown room")
	}
	public := false
	if e := r.state[[2]string{"m.room.join_rules", ""}]; e != nil {
		public = e.content()["join_rule"] == "public"
	}
	is, who := r.is(c.by.user), c.text("user_id")
	switch what := c.PathValue("change"); {
	case what == "join" && (is == "invite" || is == "join" || public && is != "ban"):
		if is != "join" {
			h.member(r, c.by, c.by.user, "join", false)
		}
	case what == "leave" && (is == "join" || is == "invite"):
		h.member(r, c.by, c.by.user, "leave", false)
	case is != "join":
		return nil, no(403, "M_FORBIDDEN", "You are not invited to this room.")
	case what == "invite":
		h.member(r, c.by, who, "invite", false)
	case what == "kick", what == "unban":
		h.member(r, c.by, who, "leave", false)
	case what == "ban":
		h.member(r, c.by, who, "ban", false)
	default:
		return nil, no(404, "M_UNRECOGNIZED", "Unrecognized request")
	}
	return map[string]any{"room_id": r.id}, nil
}

// once is the event of a transaction, made by f if there is none.
func (h *Homeserver) once(c *call, f func(r *room) (*entry, *refusal)) (any, *refusal) {
	key := c.by.device + " " + c.URL.Path
	if id := h.sent[key]; id != "" {
		return map[string]any{"event_id": id}, nil
	}
	r, refuse := h.in(c)
	if refuse != nil {
		return nil, refuse
	}
	e, refuse := f(r)
	if refuse != nil {
		return nil, refuse
	}
	e.transaction = c.PathValue("txn")
	h.sent[key] = e.body["event_id"].(string)
	return map[string]any{"event_id": h.sent[key]}, nil
}

func (h *Homeserver) send(c *call) (any, *refusal) {
	return h.once(c, func(r *room) (*entry, *refusal) {
		kind := c.PathValue("kind")
		if len(c.raw) > 65536-1024 { // with what is added
			return nil, no(413, "M_TOO_LARGE", "event too large")
		}
		if !r.may(c.by.user) {
			return nil, no(403, "M_FORBIDDEN", "You don't have permission to post that to the room. user_level < send_level")
		}
		return h.add(r, c.by, kind, nil, c.in), nil
	})
}

func (h *Homeserver) redact(c *call) (any, *refusal) {
	return h.once(c, func(r *room) (*entry, *refusal) {
		of := c.PathValue("event")
		for _, e := range r.events {
			if e.body["event_id"] == of {
				e.body["content"] = map[string]any{}
			}
		}
		e := h.add(r, c.by, "m.room.redaction", nil, map[string]any{})
		e.body["redacts"] = of
		return e, nil
	})
}

func (h *Homeserver) setState(c *call) (any, *refusal) {
	r, refuse := h.in(c)
	if refuse != nil {
		return nil, refuse
	}
	blank := ""
	return map[string]any{"event_id": h.add(r, c.by, c.PathValue("kind"), &blank, c.in).body["event_id"]}, nil
}

func (h *Homeserver) state(c *call) (any, *refusal) {
	r := h.rooms[c.PathValue("room")]
	if r == nil || r.is(c.by.user) == "" || r.is(c.by.user) == "invite" {
		return nil, no(403, "M_FORBIDDEN", "Unknown room or user has never joined it")
	}
	e := r.state[[2]string{c.PathValue("kind"), c.PathValue("key")}]
	if e == nil {
		return nil, no(404, "M_NOT_FOUND", "No such state")
	}
	return e.content(), nil
}

func (h *Homeserver) joinedMembers(c *call) (any, *refusal) {
	r, refuse := h.in(c)
	if refuse != nil {
		return nil, refuse
	}
	joined := map[string]any{}
	for at, e := range r.state {
		if at[0] == "m.room.member" && r.is(at[1]) == "join" {
			joined[at[1]] = map[string]any{"display_name": e.content()["displayname"]}
		}
	}
	return map[string]any{"joined": joined}, nil
}

func (h *Homeserver) event(c *call) (any, *refusal) {
	if r := h.rooms[c.PathValue("room")]; r != nil {
		for _, e := range r.visible(c.by.user) {
			if e.body["event_id"] == c.PathValue("event") {
				return e.shown(c.by), nil
			}
		}
	}
	return nil, no(404, "M_NOT_FOUND", "The event was not found or you do not have permission to read this event")
}

func (h *Homeserver) typing(c *call) (any, *refusal) {
	_, refuse := h.in(c)
	return struct{}{}, refuse
}

func (h *Homeserver) upload(c *call) (any, *refusal) {
	id := h.name("m")
	h.files["test.example/"+id] = file{kind: c.Header.Get("Content-Type"), content: c.raw}
	return map[string]any{"content_uri": "mxc://test.example/" + id}, nil
}

func (h *Homeserver) download(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	_, refuse := h.session(r)
	f, ok := h.files[r.PathValue("server")+"/"+r.PathValue("id")]
	h.mu.Unlock()
	switch {
	case refuse != nil:
		refuse.write(w)
	case !ok:
		no(404, "M_NOT_FOUND", "File not found").write(w)
	default:
		w.Header().Set("Content-Type", f.kind)
		w.Header().Set("Content-Length", fmt.Sprint(len(f.content)))
		_, _ = w.Write(f.content) // who asked may have gone
	}
}

// query reads a part of the address that is JSON.
func query(q url.Values, name string, into any) *refusal {
	if raw := q.Get(name); raw != "" && json.Unmarshal([]byte(raw), into) != nil {
		return no(400, "M_INVALID_PARAM", "unable to parse %s", name)
	}
	return nil
}
