package discordtest

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom/channel/platformtest"
)

// apiError is an error response. The field "global" is set if its limit applies to all calls.
type apiError = platformtest.Error

func newAPIError(status, code int, words string) *apiError {
	return &apiError{Status: status, Code: strconv.Itoa(code), Message: words}
}

// newLimitError returns the error of a limit that ends after a time.
func newLimitError(left time.Duration, global bool) *apiError {
	return &apiError{Status: 429, Message: "You are being rate limited.", RetryAfter: left.Seconds(),
		Fields: map[string]any{"global": global}}
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

// limitedResult is a result whose response reports that the limit of the call is used up.
type limitedResult struct {
	result any
	left   time.Duration
}

// ServeHTTP implements [platformtest.Dialect].
func (p *Platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	switch {
	case path == "/gateway" || path == "/resume":
		p.serveGateway(w, r)
	case strings.HasPrefix(path, "/attachments/"):
		p.download(w, r)
	case strings.HasPrefix(path, "/api/v10/"):
		p.serve(w, r, strings.Split(strings.TrimPrefix(path, "/api/v10/"), "/"))
	default:
		p.Respond(w, nil, newAPIError(404, 0, "404: Not Found"))
	}
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

// serve answers a call.
func (p *Platform) serve(w http.ResponseWriter, r *http.Request, words []string) {
	in := map[string]any{}
	var raw []byte
	var err error
	fields, file, content, isForm := platformtest.Form(r, "files[0]")
	if isForm {
		err = json.Unmarshal([]byte(fields["payload_json"]), &in)
		in["file"], in["file_content"] = file, content
	} else if raw, err = io.ReadAll(r.Body); err == nil && len(raw) > 0 {
		err = json.Unmarshal(raw, &in)
	}
	a := request{name: callName(r.Method, words), host: r.Host, path: words, query: r.URL.Query(), params: in}
	p.Serve(w, r, a.name, in, func() (any, *apiError) {
		switch {
		case err != nil || len(raw) > 0 && r.Header.Get("Content-Type") != "application/json":
			return nil, newAPIError(400, 50035, "Invalid Form Body")
		case !strings.HasPrefix(r.UserAgent(), "DiscordBot ("):
			return nil, newAPIError(403, 40333, "internal network error")
		case a.name != Callback && a.name != FollowUp && r.Header.Get("Authorization") != "Bot "+p.token:
			return nil, newAPIError(401, 0, "401: Unauthorized")
		}
		return p.checkLimits(&a)
	})
}

// checkLimits carries out a call unless a limit or the channel rejects it. mu must be held.
func (p *Platform) checkLimits(a *request) (any, *apiError) {
	if left := time.Until(p.globalUntil); left > 0 && a.name != Callback && a.name != FollowUp {
		return nil, newLimitError(left, true)
	}
	if a.path[0] == "channels" {
		a.channel = p.channels[a.path[1]]
		if a.channel == nil {
			return nil, newAPIError(404, 10003, "Unknown Channel")
		}
	}
	writes := a.name == Send || a.name == Edit || a.name == Typing
	for _, of := range []string{channelID(a.channel), a.name} {
		if left := time.Until(p.limits[of]); left > 0 && (writes || of == a.name) {
			return nil, newLimitError(left, false)
		}
	}
	result, refused := p.call(a)
	if d := p.exhausted[a.name]; d > 0 {
		delete(p.exhausted, a.name)
		p.limits[a.name] = time.Now().Add(d)
		result = limitedResult{result, d}
	}
	return result, refused
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
			"session_start_limit": map[string]any{"total": 1000, "remaining": p.starts, "reset_after": 14_400_000,
				"max_concurrency": 1},
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
	for _, m := range a.channel.All() {
		if n, _ := strconv.ParseUint(m.ID, 10, 64); n <= after { // ids are made by nextID
			continue
		}
		body := m.Details.body
		if p.showNonces && m.Details.Nonce != "" {
			body = map[string]any{"nonce": m.Details.Nonce}
			for k, v := range m.Details.body {
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

// Respond implements [platformtest.Dialect].
func (p *Platform) Respond(w http.ResponseWriter, result any, refused *apiError) {
	w.Header().Set("Content-Type", "application/json")
	if limited, ok := result.(limitedResult); ok {
		result = limited.result
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset-After", strconv.FormatFloat(limited.left.Seconds(), 'f', 3, 64))
	}
	switch {
	case refused != nil:
		code, _ := strconv.Atoi(refused.Code) // 0 without a code
		body := map[string]any{"message": refused.Message, "code": code}
		if code == 50035 {
			body["errors"] = map[string]any{"_errors": []any{map[string]any{"code": "INVALID",
				"message": "the form is invalid"}}}
		}
		if refused.Status == 429 {
			body = map[string]any{"message": refused.Message, "retry_after": refused.RetryAfter,
				"global": refused.Fields["global"] == true}
			w.Header().Set("Retry-After", fmt.Sprint(int(math.Ceil(refused.RetryAfter))))
		}
		w.WriteHeader(refused.Status)
		_ = json.NewEncoder(w).Encode(body) // the client may be gone
	case result == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		_ = json.NewEncoder(w).Encode(result) // the client may be gone
	}
}

// download serves a file. It needs no token.
func (p *Platform) download(w http.ResponseWriter, r *http.Request) {
	p.Serve(w, r, File, nil, func() (any, *apiError) {
		if content, ok := p.files[r.URL.RequestURI()]; ok {
			return platformtest.Content("", content), nil
		}
		return nil, newAPIError(404, 0, "This content is no longer available.")
	})
}
