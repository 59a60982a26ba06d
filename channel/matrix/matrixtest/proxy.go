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

// Fault is how a call goes wrong, once. The zero value lets it pass.
type Fault struct {
	Code         int    // it is not passed on, and answered with this
	Name         string // such as M_LIMIT_EXCEEDED
	Message      string
	RetryAfterMS int    // retry_after_ms
	SoftLogout   bool   // soft_logout
	Raw          string // instead of JSON
	// RetryAfter is the header of that name.
	RetryAfter int
	Hang       bool          // it is not passed on, and not answered
	Lose       bool          // it is passed on, and the answer is lost
	Half       bool          // half of the answer arrives
	Hold       chan struct{} // it is passed on, and answered when this is closed
}

// Call is one that went the way.
type Call struct {
	Name string // as of [Way.Fail]
	Path string
	In   map[string]any
	At   time.Time
	Code int // 0: it was not answered as it should be
}

// Proxy is what a bot reaches a homeserver by. What others do there is not in it.
type Proxy struct {
	URL string

	target string

	// Owned by mu.
	mu           sync.Mutex
	server       *http.Server // nil: it is down
	quit         context.CancelFunc
	faults       map[string][]Fault
	limitedUntil time.Time     // until then, too much was sent
	frozen       chan struct{} // closed when what is half-open is so no more; nil if nothing is
	calls        []Call
	wg           sync.WaitGroup
}

// NewProxy makes one to a homeserver, until the test ends.
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
	w.wg.Go(func() { _ = server.Serve(ln) }) // ends with Down, and says nothing else
}

// Down breaks all connections and refuses others from now on.
func (w *Proxy) Down() {
	w.mu.Lock()
	server, quit := w.server, w.quit
	w.server = nil
	w.mu.Unlock()
	if server != nil {
		quit()
		_ = server.Close() // there is nothing to be done about it
	}
}

// Up is there again, where it was.
func (w *Proxy) Up(t testing.TB) {
	t.Helper()
	ln, err := net.Listen("tcp", strings.TrimPrefix(w.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	w.listen(ln)
}

// Freeze leaves all connections open and answers nothing any more, until Thaw.
func (w *Proxy) Freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = make(chan struct{})
}

// Thaw answers again. What was asked meanwhile has been lost.
func (w *Proxy) Thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.frozen)
	w.frozen = nil
}

// Fail has the next calls of a name fail, one fault each. The name of a call is the
// last word of its path that no caller chooses, such as "sync", "send" or "whoami".
func (w *Proxy) Fail(name string, faults ...Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults[name] = append(w.faults[name], faults...)
}

// Limit has all sends and edits, and typing, be refused with 429, as a homeserver does
// with an account that sends too much. What is left of it is retry_after_ms.
func (w *Proxy) Limit(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limitedUntil = time.Now().Add(d)
}

// Calls are those of a name; all with "".
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

// callName is the name of a call.
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

// nextFault is what is to go wrong with a call. It is within mu.
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
		return // who asked has gone
	}
	c := Call{Name: callName(r.URL.Path), Path: r.URL.Path, At: time.Now()}
	_ = json.Unmarshal(body, &c.In) // there may be none
	w.mu.Lock()
	fault, frozen := w.nextFault(c.Name), w.frozen
	number := len(w.calls)
	w.calls = append(w.calls, c)
	w.mu.Unlock()
	switch {
	case frozen != nil || fault.Hang:
		select {
		case <-frozen: // never for a call that hangs by itself
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler) // it was lost
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
		_ = http.NewResponseController(out).Flush() // so that the half arrives, if anybody is there
		panic(http.ErrAbortHandler)
	}
	w.setCode(number, code)
	out.WriteHeader(code)
	_, _ = out.Write(answer) // who asked may have gone
}

func (w *Proxy) setCode(number, code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[number].Code = code
}

// forward passes a call on; code is 0 if there is no answer.
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

// write answers with a fault.
func (f Fault) write(w http.ResponseWriter) {
	if f.RetryAfter != 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	if f.Raw != "" {
		if f.Code != 0 {
			w.WriteHeader(f.Code)
		}
		_, _ = io.WriteString(w, f.Raw) // who asked may have gone
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
