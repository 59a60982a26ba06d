package slacktest

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom/channel/platformtest"
)

// apiError is an error response.
type apiError = platformtest.Error

func newAPIError(word string) *apiError { return &apiError{Code: word} }

// ServeHTTP implements [platformtest.Dialect].
func (p *Platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if method, ok := strings.CutPrefix(r.URL.Path, "/api/"); ok {
		p.serve(w, r, method)
		return
	}
	if id, ok := strings.CutPrefix(r.URL.Path, "/files/"); ok {
		p.download(w, r, id)
		return
	}
	if id, ok := strings.CutPrefix(r.URL.Path, "/upload/"); ok {
		p.upload(w, r, id)
		return
	}
	if _, ok := strings.CutPrefix(r.URL.Path, "/link/"); ok {
		p.serveSocket(w, r)
		return
	}
	http.NotFound(w, r)
}

// serve answers a call.
func (p *Platform) serve(w http.ResponseWriter, r *http.Request, method string) {
	if err := r.ParseForm(); err != nil {
		p.Respond(w, nil, newAPIError("invalid_form_data"))
		return
	}
	in := r.Form
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token == "" {
		token = in.Get("token")
	}
	in.Del("token")
	params := map[string]any{}
	for name := range in {
		params[name] = in.Get(name)
	}
	p.Serve(w, r, method, params, func() (any, *apiError) {
		if left := time.Until(p.limits[method]); left > 0 {
			return nil, &apiError{Code: "ratelimited", RetryAfter: float64(left/time.Second) + 1}
		}
		return p.call(r.Host, token, method, in)
	})
}

// Respond implements [platformtest.Dialect].
func (p *Platform) Respond(w http.ResponseWriter, result any, refused *apiError) {
	p.mu.Lock()
	scopes := strings.Join(p.scopes, ",")
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-OAuth-Scopes", scopes)
	body := map[string]any{"ok": true}
	if more, ok := result.(map[string]any); ok {
		maps.Copy(body, more)
	}
	if refused != nil {
		body = map[string]any{"ok": false, "error": refused.Code}
		if refused.Fields["needed"] != nil {
			body["needed"], body["provided"] = refused.Fields["needed"], scopes
		}
		if refused.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(refused.RetryAfter)))
		}
		if refused.Code == "ratelimited" {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

// call carries out a call. host is the address that the client used. mu must be held.
func (p *Platform) call(host, token, method string, in url.Values) (any, *apiError) {
	want := p.token
	if method == "apps.connections.open" {
		want = p.appToken
	}
	switch {
	case token == "":
		return nil, newAPIError("not_authed")
	case p.revoked[token]:
		return nil, newAPIError("token_revoked")
	case token != p.token && token != p.appToken:
		return nil, newAPIError("invalid_auth")
	case token != want:
		return nil, newAPIError("not_allowed_token_type")
	}
	switch method {
	case "apps.connections.open":
		return p.openConnection(host)
	case "auth.test":
		return map[string]any{
			"url": "https://work.slack.com/", "team": "Work", "team_id": TeamID, "user": Name, "user_id": BotID, "bot_id": botID,
		}, nil
	case "bots.info":
		return p.requireScope("users:read",
			map[string]any{"bot": map[string]any{"id": in.Get("bot"), "app_id": p.botApp, "user_id": BotID}})
	case "users.info":
		person := p.people[in.Get("user")]
		if person == nil {
			return nil, newAPIError("user_not_found")
		}
		return p.requireScope("users:read", map[string]any{"user": map[string]any{
			"id": person.ID, "name": strings.ToLower(person.Name), "real_name": person.Name + " Example",
			"profile": map[string]any{"display_name": person.Name},
		}})
	case "files.info":
		f, ok := p.files[in.Get("file")]
		if !ok {
			return nil, newAPIError("file_not_found")
		}
		return p.requireScope("files:read", map[string]any{"file": p.fileBody(in.Get("file"), f)})
	case "files.getUploadURLExternal":
		return p.uploadAddress(host, in)
	case "files.completeUploadExternal":
		return p.completeUpload(in)
	case "chat.postMessage":
		return p.postMessage(in)
	case "chat.update":
		return p.update(in)
	case "chat.postEphemeral":
		return p.postEphemeral(in)
	case "conversations.history", "conversations.replies":
		return p.history(in, method == "conversations.replies")
	}
	return nil, newAPIError("unknown_method")
}

// requireScope returns result, or an error if the bot's token lacks the scope. mu must be held.
func (p *Platform) requireScope(scope string, result any) (any, *apiError) {
	if !slices.Contains(p.scopes, scope) {
		return nil, &apiError{Code: "missing_scope", Fields: map[string]any{"needed": scope}}
	}
	return result, nil
}

// Download is the name of downloads, for faults and counts.
const Download = "(download)"

// download serves a file if the request has the bot's token. Other requests are redirected to
// the sign-in page.
func (p *Platform) download(w http.ResponseWriter, r *http.Request, id string) {
	p.Serve(w, r, Download, nil, func() (any, *apiError) {
		f, ok := p.files[id]
		switch {
		case r.Header.Get("Authorization") != "Bearer "+p.token || p.revoked[p.token] ||
			!slices.Contains(p.scopes, "files:read"):
			return http.RedirectHandler("/?redir="+url.QueryEscape(r.URL.Path), http.StatusFound), nil
		case !ok:
			return http.NotFoundHandler(), nil
		}
		return platformtest.Content("", f.content), nil
	})
}
