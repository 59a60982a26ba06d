package matrixtest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/channel/platformtest"
)

// Fault and Call are the types that all fakes share. The name of a call is the last fixed segment of its path,
// such as "sync", "send" or "whoami".
type (
	Fault = platformtest.Fault
	Call  = platformtest.Call
)

// Proxy is a reverse proxy between a bot and a homeserver that injects faults. Persons do not use
// it.
type Proxy struct {
	*platformtest.Server
	URL string

	target string

	// Owned by mu.
	mu           sync.Mutex
	limitedUntil time.Time // until then, sends are rate limited
}

// NewProxy starts a proxy that stops when the test ends.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	w := &Proxy{target: to}
	w.Server = platformtest.NewServer(t, &w.mu, w)
	w.URL = "http://" + w.Addr
	w.Up(t)
	return w
}

// Limit rejects sends, edits and typing with 429 for d, as a homeserver does when an account
// exceeds its rate limit. The remaining time is in retry_after_ms.
func (w *Proxy) Limit(d time.Duration) {
	w.Update(func() { w.limitedUntil = time.Now().Add(d) })
}

// String counts the calls.
func (w *Proxy) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.CountCalls()
}

// callName returns the name of a call by its path.
func callName(path string) string {
	words := strings.Split(strings.Trim(path, "/"), "/")
	for i := len(words) - 1; i >= 0; i-- {
		switch w := words[i]; w {
		case "sync", "send", "whoami", "messages", "event", "joined_members", "join", "typing", "state", "redact", "download",
			"upload", "displayname", "login", "logout", "client":
			return w
		}
	}
	return path
}

// ServeHTTP implements [platformtest.Dialect].
func (w *Proxy) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	var in map[string]any
	_ = json.Unmarshal(body, &in) // the body may be empty
	name := callName(r.URL.Path)
	w.Serve(out, r, name, in, func() (any, *apiError) {
		if left := time.Until(w.limitedUntil); left > 0 && (name == "send" || name == "typing") {
			return nil, &apiError{Status: http.StatusTooManyRequests, Code: "M_LIMIT_EXCEEDED", Message: "Too many requests",
				RetryAfter: left.Seconds() + 0.001}
		}
		w.mu.Unlock()
		defer w.mu.Lock()
		return w.forward(r, body), nil
	})
}

// Respond implements [platformtest.Dialect].
func (w *Proxy) Respond(out http.ResponseWriter, result any, refused *apiError) {
	respond(out, result, refused)
}

// forward forwards a call and returns its response.
func (w *Proxy) forward(r *http.Request, body []byte) http.HandlerFunc {
	lost := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	req, err := http.NewRequestWithContext(r.Context(), r.Method, w.target+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return lost
	}
	req.Header = r.Header.Clone()
	a, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return lost
	}
	defer a.Body.Close()
	raw, err := io.ReadAll(a.Body)
	if err != nil {
		return lost
	}
	return func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", a.Header.Get("Content-Type"))
		out.WriteHeader(a.StatusCode)
		_, _ = out.Write(raw) // a recorder does not fail
	}
}
