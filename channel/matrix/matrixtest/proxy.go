package matrixtest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fault describes how one call fails. The zero value forwards the call.
type Fault struct {
	Code         int    // returned without forwarding
	Name         string // such as M_LIMIT_EXCEEDED
	Message      string
	RetryAfterMS int    // field retry_after_ms
	SoftLogout   bool   // field soft_logout
	Raw          string // body instead of JSON
	// RetryAfter is the Retry-After header in seconds.
	RetryAfter int
	Hang       bool          // neither forwarded nor answered
	Lose       bool          // forwarded; the response is dropped
	Half       bool          // half of the response is sent
	Hold       chan struct{} // forwarded; the response waits until the channel is closed
}

// Call is a call that passed through the proxy.
type Call struct {
	Name string // as in [Proxy.Fail]
	Path string
	In   map[string]any
	At   time.Time
	Code int // 0 if no complete response was sent
}

// Proxy is a reverse proxy between a bot and a homeserver that injects faults. Persons do not use
// it.
type Proxy struct {
	URL string

	target string

	// Owned by mu.
	mu           sync.Mutex
	server       *http.Server // nil while it is down
	quit         context.CancelFunc
	faults       map[string][]Fault
	limitedUntil time.Time     // until then, sends are rate limited
	frozen       chan struct{} // non-nil while frozen; closed by Thaw
	calls        []Call
	wg           sync.WaitGroup
}

// NewProxy starts a proxy that stops when the test ends.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Proxy{URL: "http://" + ln.Addr().String(), target: to, faults: map[string][]Fault{}}
	w.listen(ln)
	t.Cleanup(func() {
		w.Down()
		w.wg.Wait()
	})
	return w
}

func (w *Proxy) listen(ln net.Listener) {
	ctx, quit := context.WithCancel(context.Background())
	server := &http.Server{Handler: http.HandlerFunc(w.serve), ReadHeaderTimeout: time.Minute, BaseContext: func(net.Listener) context.Context { return ctx }}
	w.mu.Lock()
	w.server, w.quit = server, quit
	w.mu.Unlock()
	w.wg.Go(func() { _ = server.Serve(ln) }) // returns after Down
}

// Down closes all connections and refuses new ones.
func (w *Proxy) Down() {
	w.mu.Lock()
	server, quit := w.server, w.quit
	w.server = nil
	w.mu.Unlock()
	if server != nil {
		quit()
		_ = server.Close() // best effort
	}
}

// Up listens on the same address again.
func (w *Proxy) Up(t testing.TB) {
	t.Helper()
	ln, err := net.Listen("tcp", strings.TrimPrefix(w.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	w.listen(ln)
}

// Freeze keeps connections open but stops responding until Thaw.
func (w *Proxy) Freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = make(chan struct{})
}

// Thaw resumes responding. Calls received while frozen are dropped.
func (w *Proxy) Thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.frozen)
	w.frozen = nil
}

// Fail queues faults for the next calls with a name. The name of a call is the last fixed segment
// of its path, such as "sync", "send" or "whoami".
func (w *Proxy) Fail(name string, faults ...Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults[name] = append(w.faults[name], faults...)
}

// Limit rejects sends, edits and typing with 429 for d, as a homeserver does when an account
// exceeds its rate limit. The remaining time is in retry_after_ms.
func (w *Proxy) Limit(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limitedUntil = time.Now().Add(d)
}

// Calls returns the calls with a name, or all for "".
func (w *Proxy) Calls(name string) []Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []Call
	for _, c := range w.calls {
		if name == "" || c.Name == name {
			found = append(found, c)
		}
	}
	return found
}

// callName returns the name of a call by its path.
func callName(path string) string {
	words := strings.Split(strings.Trim(path, "/"), "/")
	for i := len(words) - 1; i >= 0; i-- {
		switch w := words[i]; w {
		case "sync", "send", "whoami", "messages", "event", "joined_members", "join", "typing", "state", "redact", "download", "displayname", "login", "logout", "client":
			return w
		}
	}
	return path
}

// nextFault returns the fault for a call. The caller holds mu.
func (w *Proxy) nextFault(name string) (f Fault) {
	if left := time.Until(w.limitedUntil); left > 0 && (name == "send" || name == "typing") {
		return Fault{Code: http.StatusTooManyRequests, Name: "M_LIMIT_EXCEEDED", Message: "Too many requests", RetryAfterMS: int(left.Milliseconds()) + 1}
	}
	if left := w.faults[name]; len(left) > 0 {
		f, w.faults[name] = left[0], left[1:]
	}
	return f
}

func (w *Proxy) serve(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	c := Call{Name: callName(r.URL.Path), Path: r.URL.Path, At: time.Now()}
	_ = json.Unmarshal(body, &c.In) // the body may be empty
	w.mu.Lock()
	fault, frozen := w.nextFault(c.Name), w.frozen
	number := len(w.calls)
	w.calls = append(w.calls, c)
	w.mu.Unlock()
	switch {
	case frozen != nil || fault.Hang:
		select {
		case <-frozen: // nil, thus never ready, for a call that hangs by itself
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler) // drop the call
	case fault.Code != 0 || fault.Raw != "":
		w.setCode(number, fault.Code)
		fault.write(out)
		return
	}
	code, kind, answer := w.forward(r, body)
	if fault.Hold != nil {
		select {
		case <-fault.Hold:
		case <-r.Context().Done():
		}
	}
	w.mu.Lock()
	frozen = w.frozen
	w.mu.Unlock()
	if frozen != nil {
		select {
		case <-frozen:
		case <-r.Context().Done():
		}
	}
	if code == 0 || fault.Lose || frozen != nil {
		panic(http.ErrAbortHandler)
	}
	out.Header().Set("Content-Type", kind)
	out.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	if fault.Half {
		_, _ = out.Write(answer[:len(answer)/2])
		_ = http.NewResponseController(out).Flush() // best effort: deliver the first half
		panic(http.ErrAbortHandler)
	}
	w.setCode(number, code)
	out.WriteHeader(code)
	_, _ = out.Write(answer) // the client may be gone
}

func (w *Proxy) setCode(number, code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[number].Code = code
}

// forward forwards a call. code is 0 if there is no response.
func (w *Proxy) forward(r *http.Request, body []byte) (code int, kind string, answer []byte) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, w.target+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return 0, "", nil
	}
	req.Header = r.Header.Clone()
	a, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, "", nil
	}
	defer a.Body.Close()
	if answer, err = io.ReadAll(a.Body); err != nil {
		return 0, "", nil
	}
	return a.StatusCode, a.Header.Get("Content-Type"), answer
}

// write writes the fault's response.
func (f Fault) write(w http.ResponseWriter) {
	if f.RetryAfter != 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	if f.Raw != "" {
		if f.Code != 0 {
			w.WriteHeader(f.Code)
		}
		_, _ = io.WriteString(w, f.Raw) // the client may be gone
		return
	}
	body := map[string]any{"errcode": f.Name, "error": f.Message}
	if f.RetryAfterMS != 0 {
		body["retry_after_ms"] = f.RetryAfterMS
	}
	if f.SoftLogout {
		body["soft_logout"] = true
	}
	writeJSON(w, f.Code, body)
}
