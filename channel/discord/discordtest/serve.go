package discordtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// apiError is an error response.
type apiError struct {
	status, code int
	message      string
	retryAfter   float64
	global       bool
}

func newAPIError(status, code int, words string) *apiError {
	return &apiError{status: status, code: code, message: words}
}

// request is a call to carry out.
type request struct {
	name    string
	host    string   // address that the bot used
	path    []string // segments of the path
	query   map[string][]string
	params  map[string]any
	channel *Channel
}

func (p *Platform) handler(ctx context.Context) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		switch {
		case path == "/gateway" || path == "/resume":
			p.serveGateway(ctx, w, r)
		case strings.HasPrefix(path, "/attachments/"):
			p.download(w, r)
		case strings.HasPrefix(path, "/api/v10/"):
			p.serve(ctx, w, r, strings.Split(strings.TrimPrefix(path, "/api/v10/"), "/"))
		default:
			answer(w, nil, newAPIError(404, 0, "404: Not Found"), nil)
		}
	})
}

// callName returns the name of a call, "" if the route is unknown.
func callName(method string, w []string) string {
	switch route := method + " " + w[0]; {
	case route == "GET gateway" && len(w) == 2:
		return Gateway
	case route == "GET users" && len(w) == 2:
		return Me
	case route == "GET applications" && len(w) == 2:
		return App
	case route == "GET channels" && len(w) == 2:
		return Lookup
	case route == "GET channels" && len(w) == 3 && w[2] == "messages":
		return History
	case route == "POST channels" && len(w) == 3 && w[2] == "messages":
		return Send
	case route == "PATCH channels" && len(w) == 4 && w[2] == "messages":
		return Edit
	case route == "POST channels" && len(w) == 3 && w[2] == "typing":
		return Typing
	case route == "POST interactions" && len(w) == 4 && w[3] == "callback":
		return Callback
	case route == "POST webhooks" && len(w) == 3:
		return FollowUp
	}
	return ""
}

// serve answers a call, or fails as requested.
func (p *Platform) serve(ctx context.Context, w http.ResponseWriter, r *http.Request, words []string) {
	in := map[string]any{}
	raw, err := io.ReadAll(r.Body)
	if err == nil && len(raw) > 0 {
		err = json.Unmarshal(raw, &in)
	}
	a := request{name: callName(r.Method, words), host: r.Host, path: words, query: r.URL.Query(), params: in}
	p.mu.Lock()
	p.calls = append(p.calls, Call{Name: a.name, Path: r.URL.Path, Params: in, Agent: r.UserAgent(), Auth: r.Header.Get("Authorization"), At: time.Now()})
	call := len(p.calls) - 1
	var fault Fault
	if left := p.faults[a.name]; len(left) > 0 {
		fault, p.faults[a.name] = left[0], left[1:]
	}
	frozen := p.frozen != nil
	var result any
	var apiErr *apiError
	headers := map[string]string{}
	done := !frozen && !fault.Hang && fault.Status == 0 && fault.Raw == ""
	switch {
	case err != nil || len(raw) > 0 && r.Header.Get("Content-Type") != "application/json":
		apiErr = newAPIError(400, 50035, "Invalid Form Body")
	case !strings.HasPrefix(r.UserAgent(), "DiscordBot ("):
		apiErr = newAPIError(403, 40333, "internal network error")
	case a.name != Callback && a.name != FollowUp && r.Header.Get("Authorization") != "Bot "+p.token:
		apiErr = newAPIError(401, 0, "401: Unauthorized")
	case done:
		result, apiErr = p.checkLimits(&a, headers)
	}
	p.notify()
	p.mu.Unlock()
	if fault.Hold != nil {
		select {
		case <-fault.Hold:
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	thaw := p.frozen
	if done && thaw == nil && !fault.Lose && !fault.Half {
		p.calls[call].Status = 200
		if apiErr != nil {
			p.calls[call].Status = apiErr.status
		}
	}
	p.notify()
	p.mu.Unlock()
	if frozen && thaw == nil {
		panic(http.ErrAbortHandler) // the call was lost
	}
	if thaw != nil || fault.Hang {
		select {
		case <-r.Context().Done():
		case <-ctx.Done():
		case <-thaw: // nil, so never ready, for Fault.Hang
		}
		panic(http.ErrAbortHandler)
	}
	fault.write(w, result, apiErr, headers)
}

// checkLimits carries out a call unless a limit or the channel rejects it. mu must be held.
func (p *Platform) checkLimits(a *request, headers map[string]string) (any, *apiError) {
	if left := time.Until(p.globalUntil); left > 0 && a.name != Callback && a.name != FollowUp {
		return nil, &apiError{status: 429, message: "You are being rate limited.", retryAfter: left.Seconds(), global: true}
	}
	if a.path[0] == "channels" {
		a.channel = p.channels[a.path[1]]
		if a.channel == nil {
			return nil, newAPIError(404, 10003, "Unknown Channel")
		}
	}
	writes := a.name == Send || a.name == Edit || a.name == Typing
	if f := rejectionOf(a.channel); writes && f.Status != 0 {
		return nil, newAPIError(f.Status, f.Code, f.Message)
	}
	for _, of := range []string{channelID(a.channel), a.name} {
		if left := time.Until(p.limits[of]); left > 0 && (writes || of == a.name) {
			return nil, &apiError{status: 429, message: "You are being rate limited.", retryAfter: left.Seconds()}
		}
	}
	if d := p.exhausted[a.name]; d > 0 {
		delete(p.exhausted, a.name)
		p.limits[a.name] = time.Now().Add(d)
		headers["X-RateLimit-Remaining"] = "0"
		headers["X-RateLimit-Reset-After"] = strconv.FormatFloat(d.Seconds(), 'f', 3, 64)
	}
	return p.call(a)
}

func rejectionOf(c *Channel) Fault {
	if c == nil {
		return Fault{}
	}
	return c.rejection
}

func channelID(c *Channel) string {
	if c == nil {
		return "-"
	}
	return c.ID
}

// call carries out a call. mu must be held.
func (p *Platform) call(a *request) (any, *apiError) {
	switch a.name {
	case Gateway:
		return map[string]any{
			"url": "ws://" + a.host + "/gateway", "shards": 1,
			"session_start_limit": map[string]any{"total": 1000, "remaining": p.starts, "reset_after": 14_400_000, "max_concurrency": 1},
		}, nil
	case Me:
		return map[string]any{"id": BotID, "username": Username, "bot": true}, nil
	case App:
		flags := 0
		if p.messageContent {
			flags = 1 << 19
		}
		return map[string]any{"id": AppID, "name": Username, "flags": flags}, nil
	case Lookup:
		return a.channel.body(), nil
	case History:
		return p.history(a)
	case Send:
		return p.send(a)
	case Edit:
		return p.edit(a)
	case Typing:
		return nil, nil
	case Callback:
		return p.callback(a)
	case FollowUp:
		return p.followUp(a)
	}
	return nil, newAPIError(404, 0, "404: Not Found")
}

// history returns a page of a history, newest message first.
func (p *Platform) history(a *request) (any, *apiError) {
	limit, after := 50, uint64(0)
	if q := a.query["limit"]; len(q) > 0 {
		limit, _ = strconv.Atoi(q[0]) // 0 is rejected below
	}
	if q := a.query["after"]; len(q) > 0 {
		after, _ = strconv.ParseUint(q[0], 10, 64) // 0 is rejected below
	}
	if limit < 1 || limit > 100 || len(a.query["after"]) > 0 && after == 0 {
		return nil, newAPIError(400, 50035, "Invalid Form Body")
	}
	var found []any
	for _, m := range a.channel.messages {
		if n, _ := strconv.ParseUint(m.ID, 10, 64); n <= after { // ids are made by nextID
			continue
		}
		body := m.body
		if p.showNonces && m.Nonce != "" {
			body = map[string]any{"nonce": m.Nonce}
			for k, v := range m.body {
				body[k] = v
			}
		}
		found = append(found, body)
	}
	if after > 0 {
		found = found[:min(limit, len(found))]
	} else {
		found = found[max(0, len(found)-limit):]
	}
	slices.Reverse(found)
	if found == nil {
		found = []any{}
	}
	return found, nil
}

// write sends the response of a call, or the faulty one.
func (f Fault) write(w http.ResponseWriter, result any, apiErr *apiError, headers map[string]string) {
	switch {
	case f.Lose:
		panic(http.ErrAbortHandler)
	case f.Raw != "":
		if f.RetryAfter != 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter)))
		}
		if f.Status != 0 {
			w.WriteHeader(f.Status)
		}
		_, _ = io.WriteString(w, f.Raw) // the client may be gone
	case f.Status != 0:
		answer(w, nil, &apiError{status: f.Status, code: f.Code, message: f.Message, retryAfter: f.RetryAfter, global: f.Global}, nil)
	case f.Half:
		raw, _ := json.Marshal(result) // JSON values always marshal
		w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
		_, _ = w.Write(raw[:len(raw)/2])
		_ = http.NewResponseController(w).Flush() // send the half; the client may be gone
		panic(http.ErrAbortHandler)
	default:
		answer(w, result, apiErr, headers)
	}
}

func answer(w http.ResponseWriter, result any, apiErr *apiError, headers map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	for k, v := range headers {
		w.Header().Set(k, v)
	}
	switch {
	case apiErr != nil:
		body := map[string]any{"message": apiErr.message, "code": apiErr.code}
		if apiErr.code == 50035 {
			body["errors"] = map[string]any{"_errors": []any{map[string]any{"code": "INVALID", "message": "the form is invalid"}}}
		}
		if apiErr.status == 429 {
			body = map[string]any{"message": apiErr.message, "retry_after": apiErr.retryAfter, "global": apiErr.global}
			w.Header().Set("Retry-After", fmt.Sprint(int(math.Ceil(apiErr.retryAfter))))
		}
		w.WriteHeader(apiErr.status)
		_ = json.NewEncoder(w).Encode(body) // the client may be gone
	case result == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		_ = json.NewEncoder(w).Encode(result) // the client may be gone
	}
}

func (p *Platform) download(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.calls = append(p.calls, Call{Name: File, Path: r.URL.Path, Auth: r.Header.Get("Authorization"), At: time.Now(), Status: 200})
	found, ok := p.files[r.URL.RequestURI()]
	p.mu.Unlock()
	if !ok {
		http.Error(w, "This content is no longer available.", http.StatusNotFound)
		return
	}
	_, _ = w.Write(found) // the client may be gone
}
