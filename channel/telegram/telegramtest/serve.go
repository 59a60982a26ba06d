package telegramtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom/channel/platformtest"
)

// apiError is an error response. Its fields are the response's parameters.
type apiError = platformtest.Error

func newAPIError(code int, format string, args ...any) *apiError {
	return &apiError{Status: code, Message: fmt.Sprintf(format, args...)}
}

// ServeHTTP implements [platformtest.Dialect].
func (p *Platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	words := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 3)
	switch {
	case len(words) == 2 && strings.HasPrefix(words[0], "bot"):
		p.serve(w, r, strings.TrimPrefix(words[0], "bot"), words[1])
	case len(words) == 3 && words[0] == "file" && strings.HasPrefix(words[1], "bot"):
		p.download(r.Context(), w, strings.TrimPrefix(words[1], "bot"), words[2])
	default:
		p.Respond(w, nil, newAPIError(404, "Not Found"))
	}
}

// serve answers a call.
func (p *Platform) serve(w http.ResponseWriter, r *http.Request, token, method string) {
	in, err := parseParams(r)
	if err != nil {
		p.Respond(w, nil, newAPIError(400, "Bad Request: can't parse the body"))
		return
	}
	p.Serve(w, r, method, in, func() (any, *apiError) {
		b := p.bots[token]
		switch {
		case !strings.Contains(token, ":"):
			return nil, newAPIError(404, "Not Found")
		case b == nil || b.revoked:
			return nil, newAPIError(401, "Unauthorized")
		case method == "getUpdates":
			return p.getUpdates(r, b, in)
		}
		return p.call(b, method, in)
	})
}

// Respond implements [platformtest.Dialect].
func (p *Platform) Respond(w http.ResponseWriter, result any, refused *apiError) {
	w.Header().Set("Content-Type", "application/json")
	body := map[string]any{"ok": true, "result": result}
	if refused != nil {
		body = map[string]any{"ok": false, "error_code": refused.Status, "description": refused.Message}
		parameters := maps.Clone(refused.Fields)
		if refused.RetryAfter != 0 {
			parameters = map[string]any{"retry_after": refused.RetryAfter}
		}
		if parameters != nil {
			body["parameters"] = parameters
		}
		w.WriteHeader(refused.Status)
	}
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

// parseParams returns the parameters of a call from its URL and its form or JSON body.
func parseParams(r *http.Request) (map[string]any, error) {
	in := map[string]any{}
	add := func(v url.Values) {
		for k := range v {
			in[k] = v.Get(k)
			if n, err := strconv.ParseFloat(v.Get(k), 64); err == nil {
				in[k] = n
			}
		}
	}
	add(r.URL.Query())
	if fields, name, content, ok := platformtest.Form(r, "document"); ok {
		for k, v := range fields {
			var decoded any
			if in[k] = v; json.Unmarshal([]byte(v), &decoded) == nil && k != "caption" {
				in[k] = decoded
			}
		}
		in["text"], in["file_name"], in["file_content"] = in["caption"], name, content
		return in, nil
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return in, json.Unmarshal(raw, &in)
	}
	form, err := url.ParseQuery(string(raw))
	add(form)
	return in, err
}

// getUpdates returns unconfirmed updates. mu must be held; it is released while the poll waits.
func (p *Platform) getUpdates(r *http.Request, b *bot, in map[string]any) (any, *apiError) {
	if b.webhook != "" {
		return nil,
			newAPIError(409,
				"Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first")
	}
	b.polls++
	me := b.polls
	for host, ctx := range b.pollers {
		if host != r.Host && ctx.Err() == nil {
			b.overlaps++
		}
	}
	b.pollers[r.Host] = r.Context()
	defer func() {
		if b.pollers[r.Host] == r.Context() {
			delete(b.pollers, r.Host)
		}
	}()
	offset := int64(math.MinInt64)
	if n, ok := in["offset"].(float64); ok && n != 0 {
		offset = int64(n)
		b.updates = slices.DeleteFunc(b.updates, func(u queuedUpdate) bool { return u.id < offset })
	}
	p.Notify()
	limit := 100
	if n, ok := in["limit"].(float64); ok {
		limit = int(n)
	}
	wait, _ := in["timeout"].(float64)
	late := time.NewTimer(time.Duration(wait * float64(time.Second)))
	defer late.Stop()
	for open := wait > 0; ; {
		out := []any{}
		for _, u := range b.updates {
			if u.id >= offset && isAllowed(u, in) && len(out) < limit {
				out = append(out, u.raw)
			}
		}
		if len(out) > 0 || !open {
			return out, nil
		}
		open = p.Wait(r.Context(), late.C)
		switch {
		case b.polls != me:
			return nil,
				newAPIError(409,
					"Conflict: terminated by other getUpdates request; make sure that only one bot instance is running")
		case b.webhook != "":
			return nil, newAPIError(409, "Conflict: terminated by setWebhook request")
		case b.revoked:
			return nil, newAPIError(401, "Unauthorized")
		}
	}
}

func isAllowed(u queuedUpdate, in map[string]any) bool {
	kinds, ok := in["allowed_updates"].([]any)
	if !ok || len(kinds) == 0 {
		return true
	}
	for k := range u.raw {
		if slices.Contains(kinds, any(k)) {
			return true
		}
	}
	return false
}

func (p *Platform) download(ctx context.Context, w http.ResponseWriter, token, path string) {
	p.mu.Lock()
	b := p.bots[token]
	var found []byte
	for _, f := range p.files {
		if b != nil && !b.revoked && f.path == path {
			found = f.content
		}
	}
	held := p.held
	p.downloads++
	p.mu.Unlock()
	if found == nil {
		p.Respond(w, nil, newAPIError(404, "Not Found"))
		return
	}
	_, _ = w.Write(found[:len(found)/2]) // the client may be gone
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return
		}
	}
	_, _ = w.Write(found[len(found)/2:]) // the client may be gone
}
