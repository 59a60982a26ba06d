package slacktest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// apiError is an error response.
type apiError struct {
	code, needed string
	retryAfter   int
}

func newAPIError(word string) *apiError { return &apiError{code: word} }

func (p *Platform) handler(ctx context.Context) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if method, ok := strings.CutPrefix(r.URL.Path, "/api/"); ok {
			p.serve(ctx, w, r, method)
			return
		}
		if id, ok := strings.CutPrefix(r.URL.Path, "/files/"); ok {
			p.download(w, r, id)
			return
		}
		if _, ok := strings.CutPrefix(r.URL.Path, "/link/"); ok {
			p.serveSocket(ctx, w, r)
			return
		}
		http.NotFound(w, r)
	})
}

// serve answers a call, or fails as requested.
func (p *Platform) serve(ctx context.Context, w http.ResponseWriter, r *http.Request, method string) {
	if err := r.ParseForm(); err != nil {
		answer(w, nil, nil, newAPIError("invalid_form_data"))
		return
	}
	in := r.Form
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token == "" {
		token = in.Get("token")
	}
	in.Del("token")
	p.mu.Lock()
	at := len(p.calls)
	p.calls = append(p.calls, Call{Method: method, Params: in, At: time.Now()})
	var fault Fault
	if left := p.faults[method]; len(left) > 0 {
		fault, p.faults[method] = left[0], left[1:]
	}
	frozen, scopes := p.frozen, slices.Clone(p.scopes)
	var result any
	var apiErr *apiError
	switch left := time.Until(p.limits[method]); {
	case frozen != nil, fault.Hang, fault.Raw != "":
	case fault.Error != "":
		apiErr = &apiError{code: fault.Error, needed: fault.Needed, retryAfter: fault.RetryAfter}
	case left > 0:
		apiErr = &apiError{code: "ratelimited", retryAfter: int(left/time.Second) + 1}
	default:
		result, apiErr = p.call(r.Host, token, method, in)
	}
	if apiErr != nil {
		p.calls[at].Error = apiErr.code
	}
	p.notify()
	p.mu.Unlock()
	if fault.Hold != nil {
		select {
		case <-fault.Hold:
		case <-ctx.Done():
		}
	}
	switch {
	case frozen != nil:
		hang(ctx, r, frozen)
	case fault.Hang:
		hang(ctx, r, nil)
	case fault.Lose:
		panic(http.ErrAbortHandler)
	case fault.Raw != "":
		if fault.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(fault.RetryAfter))
		}
		if fault.Status != 0 {
			w.WriteHeader(fault.Status)
		}
		_, _ = io.WriteString(w, fault.Raw) // the client may be gone
	case fault.Half:
		raw, _ := json.Marshal(result) // JSON values always marshal
		w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
		_, _ = w.Write(raw[:len(raw)/2])
		_ = http.NewResponseController(w).Flush() // send the half; the client may be gone
		panic(http.ErrAbortHandler)
	default:
		answer(w, scopes, result, apiErr)
	}
}

func answer(w http.ResponseWriter, scopes []string, result any, apiErr *apiError) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-OAuth-Scopes", strings.Join(scopes, ","))
	body := map[string]any{"ok": true}
	if more, ok := result.(map[string]any); ok {
		for k, v := range more {
			body[k] = v
		}
	}
	if apiErr != nil {
		body = map[string]any{"ok": false, "error": apiErr.code}
		if apiErr.needed != "" {
			body["needed"], body["provided"] = apiErr.needed, strings.Join(scopes, ",")
		}
		if apiErr.retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(apiErr.retryAfter))
		}
		if apiErr.code == "ratelimited" {
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
		return p.requireScope("users:read", map[string]any{"bot": map[string]any{"id": in.Get("bot"), "app_id": p.botApp, "user_id": BotID}})
	case "users.info":
		person := p.people[in.Get("user")]
		if person == nil {
			return nil, newAPIError("user_not_found")
		}
		return p.requireScope("users:read", map[string]any{"user": map[string]any{
			"id": person.ID, "name": strings.ToLower(person.Name), "real_name": person.Name + " Example", "profile": map[string]any{"display_name": person.Name},
		}})
	case "files.info":
		f, ok := p.files[in.Get("file")]
		if !ok {
			return nil, newAPIError("file_not_found")
		}
		return p.requireScope("files:read", map[string]any{"file": p.fileBody(in.Get("file"), f)})
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
		return nil, &apiError{code: "missing_scope", needed: scope}
	}
	return result, nil
}

// Download is the method name for faults of downloads. Only Hold is supported.
const Download = "(download)"

// download serves a file if the request has the bot's token. Other requests are redirected to
// the sign-in page.
func (p *Platform) download(w http.ResponseWriter, r *http.Request, id string) {
	p.mu.Lock()
	f, ok := p.files[id]
	may := r.Header.Get("Authorization") == "Bearer "+p.token && !p.revoked[p.token] && slices.Contains(p.scopes, "files:read")
	var fault Fault
	if left := p.faults[Download]; len(left) > 0 {
		fault, p.faults[Download] = left[0], left[1:]
	}
	p.mu.Unlock()
	if fault.Hold != nil {
		select {
		case <-fault.Hold:
		case <-r.Context().Done():
			return
		}
	}
	switch {
	case !may:
		http.Redirect(w, r, "/?redir="+url.QueryEscape(r.URL.Path), http.StatusFound)
	case !ok:
		http.NotFound(w, r)
	default:
		_, _ = w.Write(f.content) // the client may be gone
	}
}
