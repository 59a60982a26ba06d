package matrixtest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"mailroom/channel/platformtest"
)

// call is one API request. Handlers run while mu is held.
type call struct {
	*http.Request
	session session
	body    map[string]any
	raw     []byte
}

// field returns a string field of the request body.
func (c *call) field(name string) string {
	s, _ := c.body[name].(string)
	return s
}

const base = "/_matrix/client/v3"

// ServeHTTP implements [platformtest.Dialect].
func (h *Homeserver) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.routes.ServeHTTP(w, r) }

// newRoutes returns the routes of the homeserver.
func (h *Homeserver) newRoutes() http.Handler {
	mux := http.NewServeMux()
	open := map[string]func(*call) (any, *apiError){
		"GET /_matrix/client/versions": func(*call) (any, *apiError) {
			return map[string]any{"versions": []string{"v1.11"}}, nil
		},
		"POST " + base + "/register": h.register,
		"POST " + base + "/login":    h.login,
		"GET /.well-known/matrix/client": func(*call) (any, *apiError) {
			return map[string]any{"m.homeserver": map[string]any{"base_url": h.URL}}, nil
		},
		"GET " + base + "/profile/{user}/displayname": h.profile,
	}
	for pattern, f := range open {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, f, false) })
	}
	for pattern, f := range map[string]func(*call) (any, *apiError){
		"POST " + base + "/logout":                            h.logout,
		"GET " + base + "/account/whoami":                     h.whoami,
		"PUT " + base + "/profile/{user}/displayname":         h.setDisplayName,
		"POST " + base + "/createRoom":                        h.createRoom,
		"POST " + base + "/rooms/{room}/{change}":             h.changeMembership,
		"PUT " + base + "/rooms/{room}/send/{kind}/{txn}":     h.send,
		"PUT " + base + "/rooms/{room}/redact/{event}/{txn}":  h.redact,
		"PUT " + base + "/rooms/{room}/state/{kind}/{$}":      h.setState,
		"GET " + base + "/rooms/{room}/state/{kind}/{key}":    h.state,
		"GET " + base + "/rooms/{room}/joined_members":        h.joinedMembers,
		"GET " + base + "/rooms/{room}/messages":              h.messages,
		"GET " + base + "/rooms/{room}/event/{event}":         h.event,
		"PUT " + base + "/rooms/{room}/typing/{user}":         h.typing,
		"GET " + base + "/sync":                               h.sync,
		"POST /_matrix/media/v3/upload":                       h.upload,
		"GET /_matrix/client/v1/media/download/{server}/{id}": h.download,
		"GET /_matrix/media/v3/download/{server}/{id}":        h.download,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, f, true) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		h.Respond(w, nil, newError(404, "M_UNRECOGNIZED", "Unrecognized request"))
	})
	return mux
}

// authenticate returns the session of a request's token.
func (h *Homeserver) authenticate(r *http.Request) (session, *apiError) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return session{}, newError(401, "M_MISSING_TOKEN", "Missing access token")
	}
	s, ok := h.sessions[token]
	if !ok {
		return session{}, newError(401, "M_UNKNOWN_TOKEN", "Unknown token")
	}
	return s, nil
}

func (h *Homeserver) serve(w http.ResponseWriter, r *http.Request, f func(*call) (any, *apiError), private bool) {
	c := &call{Request: r, body: map[string]any{}}
	var err error
	if c.raw, err = io.ReadAll(r.Body); err != nil {
		return // the client is gone
	}
	h.Serve(w, r, r.Pattern, c.body, func() (out any, refused *apiError) {
		if private {
			c.session, refused = h.authenticate(r)
		}
		if refused == nil && len(c.raw) > 0 && r.Header.Get("Content-Type") == "application/json" &&
			string(c.raw) != "null" && json.Unmarshal(c.raw, &c.body) != nil {
			refused = newError(400, "M_NOT_JSON", "The request body could not be decoded into valid JSON")
		}
		if refused != nil {
			return nil, refused
		}
		return f(c)
	})
}

func (h *Homeserver) register(c *call) (any, *apiError) {
	id := "@" + c.field("username") + ":test.example"
	if h.users[id] != nil {
		return nil, newError(400, "M_USER_IN_USE", "Desired user ID is already taken.")
	}
	h.users[id] = &user{password: c.field("password"), name: c.field("username")}
	return h.newSession(id), nil
}

func (h *Homeserver) login(c *call) (any, *apiError) {
	who, _ := c.body["identifier"].(map[string]any)
	id, _ := who["user"].(string)
	if !strings.HasPrefix(id, "@") {
		id = "@" + id + ":test.example"
	}
	if u := h.users[id]; u == nil || u.password != c.field("password") || c.field("type") != "m.login.password" {
		return nil, newError(403, "M_FORBIDDEN", "The username or password was incorrect or the account does not exist.")
	}
	return h.newSession(id), nil
}

// newSession logs a user in and returns the response.
func (h *Homeserver) newSession(id string) any {
	token, device := h.newID("syt_"), h.newID("D")
	h.sessions[token] = session{user: id, device: device}
	return map[string]any{"user_id": id, "access_token": token, "device_id": device}
}

func (h *Homeserver) logout(c *call) (any, *apiError) {
	for token, s := range h.sessions {
		if s == c.session {
			delete(h.sessions, token)
		}
	}
	h.Notify()
	return struct{}{}, nil
}

func (h *Homeserver) whoami(c *call) (any, *apiError) {
	return map[string]any{"user_id": c.session.user, "device_id": c.session.device}, nil
}

func (h *Homeserver) profile(c *call) (any, *apiError) {
	u := h.users[c.PathValue("user")]
	if u == nil {
		return nil, newError(404, "M_NOT_FOUND", "Profile was not found")
	}
	return map[string]any{"displayname": u.name}, nil
}

func (h *Homeserver) setDisplayName(c *call) (any, *apiError) {
	h.users[c.session.user].name = c.field("displayname")
	return struct{}{}, nil
}

func (h *Homeserver) createRoom(c *call) (any, *apiError) {
	r := &room{id: h.newID("!") + ":test.example", state: map[[2]string]*storedEvent{}}
	h.rooms[r.id] = r
	blank := ""
	h.appendEvent(r, c.session, "m.room.create", &blank, map[string]any{"creator": c.session.user, "room_version": "10"})
	h.setMembership(r, c.session, c.session.user, "join", false)
	initial, _ := c.body["initial_state"].([]any)
	for _, one := range initial {
		s, _ := one.(map[string]any)
		kind, _ := s["type"].(string)
		content, _ := s["content"].(map[string]any)
		h.appendEvent(r, c.session, kind, &blank, content)
	}
	others, _ := c.body["invite"].([]any)
	direct, _ := c.body["is_direct"].(bool)
	for _, o := range others {
		h.setMembership(r, c.session, o.(string), "invite", direct)
	}
	if c.field("preset") == "public_chat" {
		h.appendEvent(r, c.session, "m.room.join_rules", &blank, map[string]any{"join_rule": "public"})
	}
	return map[string]any{"room_id": r.id}, nil
}

// joinedRoom returns the request's room if the caller is a member.
func (h *Homeserver) joinedRoom(c *call) (*room, *apiError) {
	r := h.rooms[c.PathValue("room")]
	if r == nil {
		return nil, newError(404, "M_NOT_FOUND", "Unknown room")
	}
	if r.membership(c.session.user) != "join" {
		return nil, newError(403, "M_FORBIDDEN", "User %s not in room %s", c.session.user, r.id)
	}
	return r, nil
}

// changeMembership handles join, leave, invite, kick, unban and ban.
func (h *Homeserver) changeMembership(c *call) (any, *apiError) {
	r := h.rooms[c.PathValue("room")]
	if r == nil {
		return nil, newError(404, "M_NOT_FOUND", "Unknown room")
	}
	public := false
	if e := r.state[[2]string{"m.room.join_rules", ""}]; e != nil {
		public = e.content()["join_rule"] == "public"
	}
	is, who := r.membership(c.session.user), c.field("user_id")
	switch what := c.PathValue("change"); {
	case what == "join" && (is == "invite" || is == "join" || public && is != "ban"):
		if is != "join" {
			h.setMembership(r, c.session, c.session.user, "join", false)
		}
	case what == "leave" && (is == "join" || is == "invite"):
		h.setMembership(r, c.session, c.session.user, "leave", false)
	case is != "join":
		return nil, newError(403, "M_FORBIDDEN", "You are not invited to this room.")
	case what == "invite":
		h.setMembership(r, c.session, who, "invite", false)
	case what == "kick", what == "unban":
		h.setMembership(r, c.session, who, "leave", false)
	case what == "ban":
		h.setMembership(r, c.session, who, "ban", false)
	default:
		return nil, newError(404, "M_UNRECOGNIZED", "Unrecognized request")
	}
	return map[string]any{"room_id": r.id}, nil
}

// sendOnce returns the event of the request's transaction; f creates it the first time.
func (h *Homeserver) sendOnce(c *call, f func(r *room) (*storedEvent, *apiError)) (any, *apiError) {
	key := c.session.device + " " + c.URL.Path
	if id := h.sent[key]; id != "" {
		return map[string]any{"event_id": id}, nil
	}
	r, refuse := h.joinedRoom(c)
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

func (h *Homeserver) send(c *call) (any, *apiError) {
	return h.sendOnce(c, func(r *room) (*storedEvent, *apiError) {
		kind := c.PathValue("kind")
		if len(c.raw) > 65536-1024 { // leaves room for the fields that the homeserver adds
			return nil, newError(413, "M_TOO_LARGE", "event too large")
		}
		if !r.maySend(c.session.user) {
			return nil,
				newError(403, "M_FORBIDDEN", "You don't have permission to post that to the room. user_level < send_level")
		}
		return h.appendEvent(r, c.session, kind, nil, c.body), nil
	})
}

func (h *Homeserver) redact(c *call) (any, *apiError) {
	return h.sendOnce(c, func(r *room) (*storedEvent, *apiError) {
		of := c.PathValue("event")
		for _, e := range r.events {
			if e.body["event_id"] == of {
				e.body["content"] = map[string]any{}
			}
		}
		e := h.appendEvent(r, c.session, "m.room.redaction", nil, map[string]any{})
		e.body["redacts"] = of
		return e, nil
	})
}

func (h *Homeserver) setState(c *call) (any, *apiError) {
	r, refuse := h.joinedRoom(c)
	if refuse != nil {
		return nil, refuse
	}
	blank := ""
	return map[string]any{"event_id": h.appendEvent(r, c.session, c.PathValue("kind"), &blank, c.body).body["event_id"]},
		nil
}

func (h *Homeserver) state(c *call) (any, *apiError) {
	r := h.rooms[c.PathValue("room")]
	if r == nil || r.membership(c.session.user) == "" || r.membership(c.session.user) == "invite" {
		return nil, newError(403, "M_FORBIDDEN", "Unknown room or user has never joined it")
	}
	e := r.state[[2]string{c.PathValue("kind"), c.PathValue("key")}]
	if e == nil {
		return nil, newError(404, "M_NOT_FOUND", "No such state")
	}
	return e.content(), nil
}

func (h *Homeserver) joinedMembers(c *call) (any, *apiError) {
	r, refuse := h.joinedRoom(c)
	if refuse != nil {
		return nil, refuse
	}
	joined := map[string]any{}
	for at, e := range r.state {
		if at[0] == "m.room.member" && r.membership(at[1]) == "join" {
			joined[at[1]] = map[string]any{"display_name": e.content()["displayname"]}
		}
	}
	return map[string]any{"joined": joined}, nil
}

func (h *Homeserver) event(c *call) (any, *apiError) {
	if r := h.rooms[c.PathValue("room")]; r != nil {
		for _, e := range r.visible(c.session.user) {
			if e.body["event_id"] == c.PathValue("event") {
				return e.view(c.session), nil
			}
		}
	}
	return nil, newError(404, "M_NOT_FOUND", "The event was not found or you do not have permission to read this event")
}

func (h *Homeserver) typing(c *call) (any, *apiError) {
	_, refuse := h.joinedRoom(c)
	return struct{}{}, refuse
}

func (h *Homeserver) upload(c *call) (any, *apiError) {
	id := h.newID("m")
	h.files["test.example/"+id] = file{kind: c.Header.Get("Content-Type"), content: c.raw}
	return map[string]any{"content_uri": "mxc://test.example/" + id}, nil
}

func (h *Homeserver) download(c *call) (any, *apiError) {
	f, ok := h.files[c.PathValue("server")+"/"+c.PathValue("id")]
	if !ok {
		return nil, newError(404, "M_NOT_FOUND", "File not found")
	}
	return platformtest.Content(f.kind, f.content), nil
}

// decodeQuery decodes a query parameter that holds JSON.
func decodeQuery(q url.Values, name string, into any) *apiError {
	if raw := q.Get(name); raw != "" && json.Unmarshal([]byte(raw), into) != nil {
		return newError(400, "M_INVALID_PARAM", "unable to parse %s", name)
	}
	return nil
}
