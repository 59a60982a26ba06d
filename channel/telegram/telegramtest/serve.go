package telegramtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// apiError is an error response.
type apiError struct {
	code       int
	message    string
	retryAfter int
	migrated   int64
}

func newAPIError(code int, format string, args ...any) *apiError {
	return &apiError{code: code, message: fmt.Sprintf(format, args...)}
}

func (p *Platform) handler(ctx context.Context) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		words := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 3)
		switch {
		case len(words) == 2 && strings.HasPrefix(words[0], "bot"):
			p.serve(ctx, w, r, strings.TrimPrefix(words[0], "bot"), words[1])
		case len(words) == 3 && words[0] == "file" && strings.HasPrefix(words[1], "bot"):
			p.download(r.Context(), w, strings.TrimPrefix(words[1], "bot"), words[2])
		default:
			answer(w, nil, newAPIError(404, "Not Found"))
		}
	})
}

// serve answers a call, or fails as requested.
func (p *Platform) serve(ctx context.Context, w http.ResponseWriter, r *http.Request, token, method string) {
	in, err := parseParams(r)
	if err != nil {
		answer(w, nil, newAPIError(400, "Bad Request: can't parse the body"))
		return
	}
	p.mu.Lock()
	b := p.bots[token]
	p.calls = append(p.calls, Call{Method: method, Params: in, At: time.Now()})
	call := len(p.calls) - 1
	var fault Fault
	if left := p.faults[method]; len(left) > 0 {
		fault, p.faults[method] = left[0], left[1:]
	}
	frozen := p.frozen != nil
	var result any
	var apiErr *apiError
	done := !frozen && !fault.Hang && fault.Code == 0 && fault.Raw == ""
	switch {
	case !strings.Contains(token, ":"):
		apiErr = newAPIError(404, "Not Found")
	case b == nil || b.revoked:
		apiErr = newAPIError(401, "Unauthorized")
	case done && method == "getUpdates":
		result, apiErr = p.getUpdates(ctx, r, token, in) // releases mu while it waits
	case done:
		result, apiErr = p.call(b, method, in)
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
	code := 200
	if apiErr != nil {
		code = apiErr.code
	}
	if done && thaw == nil && !fault.Lose && !fault.Half {
		p.calls[call].Code = code
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
	fault.write(w, result, apiErr)
}

// write sends the response of a call, or the faulty one.
func (f Fault) write(w http.ResponseWriter, result any, apiErr *apiError) {
	switch {
	case f.Lose:
		panic(http.ErrAbortHandler)
	case f.Raw != "":
		if f.RetryAfter != 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		if f.Code != 0 {
			w.WriteHeader(f.Code)
		}
		_, _ = io.WriteString(w, f.Raw) // the client may be gone
	case f.Code != 0:
		answer(w, nil, &apiError{code: f.Code, message: f.Message, retryAfter: f.RetryAfter})
	case f.Half:
		raw, _ := json.Marshal(map[string]any{"ok": true, "result": result}) // JSON values always marshal
		w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
		_, _ = w.Write(raw[:len(raw)/2])
		_ = http.NewResponseController(w).Flush() // send the half; the client may be gone
		panic(http.ErrAbortHandler)
	default:
		answer(w, result, apiErr)
	}
}

func answer(w http.ResponseWriter, result any, apiErr *apiError) {
	w.Header().Set("Content-Type", "application/json")
	body := map[string]any{"ok": true, "result": result}
	if apiErr != nil {
		body = map[string]any{"ok": false, "error_code": apiErr.code, "description": apiErr.message}
		more := map[string]any{}
		if apiErr.retryAfter != 0 {
			more["retry_after"] = apiErr.retryAfter
		}
		if apiErr.migrated != 0 {
			more["migrate_to_chat_id"] = apiErr.migrated
		}
		if len(more) > 0 {
			body["parameters"] = more
		}
		w.WriteHeader(apiErr.code)
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
func (p *Platform) getUpdates(ctx context.Context, r *http.Request, token string, in map[string]any) (any, *apiError) {
	b := p.bots[token]
	if b.webhook != "" {
		return nil, newAPIError(409, "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first")
	}
	p.endPoll(b)
	b.polls++
	me, ended := b.polls, make(chan struct{})
	b.polling = ended
	offset := int64(math.MinInt64)
	if n, ok := in["offset"].(float64); ok && n != 0 {
		offset = int64(n)
		b.updates = slices.DeleteFunc(b.updates, func(u queuedUpdate) bool { return u.id < offset })
		p.notify()
	}
	limit := 100
	if n, ok := in["limit"].(float64); ok {
		limit = int(n)
	}
	wait, _ := in["timeout"].(float64)
	late := time.NewTimer(time.Duration(wait * float64(time.Second)))
	defer late.Stop()
	for {
		out := []any{}
		for _, u := range b.updates {
			if u.id >= offset && isAllowed(u, in) && len(out) < limit {
				out = append(out, u.raw)
			}
		}
		if len(out) > 0 || wait == 0 {
			return out, b.endOwnPoll(me)
		}
		changed := p.changed
		p.mu.Unlock()
		wait = 1
		select {
		case <-changed:
		case <-ended:
		case <-late.C:
			wait = 0
		case <-r.Context().Done():
			wait = 0
		case <-ctx.Done():
			wait = 0
		}
		p.mu.Lock()
		if apiErr := b.pollError(me); apiErr != nil {
			return nil, apiErr
		}
		if b.revoked {
			return nil, newAPIError(401, "Unauthorized")
		}
	}
}

// pollError returns why a poll was ended early, or nil.
func (b *bot) pollError(poll int) *apiError {
	switch {
	case b.polls != poll:
		return newAPIError(409, "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running")
	case b.webhook != "":
		return newAPIError(409, "Conflict: terminated by setWebhook request")
	}
	return nil
}

func (b *bot) endOwnPoll(me int) *apiError {
	if b.polls == me {
		b.polling = nil
	}
	return nil
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
		answer(w, nil, newAPIError(404, "Not Found"))
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
