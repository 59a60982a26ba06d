// Package platformtest is the base of the fakes of chat platforms: a server on loopback that
// records calls, injects faults, goes down and comes back, and wakes tests that wait. A fake adds
// a [Dialect]: the routes, the wire format and the documented rules of its platform.
//
// A webhook has no platform: any program may be on its other side. Both sides of it are here. They implement the
// signature independently of package webhook.
package platformtest

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/internal/machinetest"
)

// Dialect is what a fake adds to a [Server].
type Dialect interface {
	// ServeHTTP routes a request. It passes calls of the platform's API to [Server.Serve].
	ServeHTTP(w http.ResponseWriter, r *http.Request)
	// Respond writes the response of a call in the platform's format. refused is nil if the call
	// succeeded.
	Respond(w http.ResponseWriter, result any, refused *Error)
	// String describes the state of the fake in failure messages.
	String() string
}

// Error is an error response of a platform.
type Error struct {
	Status     int
	Code       string // of the platform; "" if it has none
	Message    string
	RetryAfter float64        // in seconds; 0 for none
	Fields     map[string]any // more fields of the response, as the fake describes them
}

// Fault describes how one call fails. The first fields are the error response; their meaning is
// that of [Error]. The call is not carried out if there is an error response, Raw or Hang.
type Fault struct {
	Status     int
	Code       string
	Message    string
	RetryAfter float64 // with Raw, the Retry-After header
	Header     string  // one more header, as "Name: value"

	Raw  string        // response body as is, with Status or 200
	Hang bool          // no response
	Half bool          // the call is carried out, and half of the response is sent
	Lose bool          // the call is carried out, and the response is lost
	Hold chan struct{} // the call is carried out, and answered once this is closed
}

// Call is a call that a server received.
type Call struct {
	Name   string // as in [Server.Fail]
	Path   string
	Params map[string]any
	Header http.Header
	At     time.Time
	Status int    // of the response; 0 if none was sent in full
	Code   string // of the error response; "" if there was none
}

// Server is a fake's server on loopback. Its address stays the same when it goes down and comes
// back. Its methods are safe for concurrent use.
type Server struct {
	*State
	Addr string // host:port

	dialect Dialect
	serving sync.WaitGroup

	// Owned by the lock of State.
	http   *http.Server
	quit   context.CancelFunc
	calls  []Call
	faults map[string][]Fault // by name of the call
	frozen chan struct{}      // closed by Thaw; nil if not frozen
}

// NewServer returns a server that refuses connections until Up, and goes down when the test ends.
// mu guards the state of the dialect and of the server.
func NewServer(t testing.TB, mu *sync.Mutex, d Dialect) *Server {
	t.Helper()
	s := &Server{State: NewState(mu, d.String), Addr: machinetest.Reserve(t), dialect: d, faults: map[string][]Fault{}}
	t.Cleanup(s.Down)
	return s
}

// Up starts listening.
func (s *Server) Up(t testing.TB) {
	t.Helper()
	ln := machinetest.Listen(t, s.Addr)
	ctx, quit := context.WithCancel(context.Background())
	server := &http.Server{Handler: s.dialect, ReadHeaderTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context {
			return ctx
		}}
	s.Update(func() { s.http, s.quit = server, quit })
	s.serving.Go(func() { _ = server.Serve(ln) }) // returns after Down
}

// Down closes all connections, refuses new ones and ends the contexts of all requests. The state
// is kept.
func (s *Server) Down() {
	s.mu.Lock()
	server, quit := s.http, s.quit
	s.http = nil
	s.mu.Unlock()
	if server != nil {
		quit()
		_ = server.Close() // the server is gone either way
	}
	s.serving.Wait()
}

// Freeze keeps all connections open and answers nothing until Thaw.
func (s *Server) Freeze() {
	s.Update(func() { s.frozen = make(chan struct{}) })
}

// Thaw answers again. Calls made while frozen are lost.
func (s *Server) Thaw() {
	s.Update(func() {
		close(s.frozen)
		s.frozen = nil
	})
}

// Fail makes the next calls of a name fail, one fault each.
func (s *Server) Fail(name string, faults ...Fault) {
	s.Update(func() { s.faults[name] = append(s.faults[name], faults...) })
}

// ClearFaults removes all faults that have not happened.
func (s *Server) ClearFaults() {
	s.Update(func() { clear(s.faults) })
}

// Calls returns the calls of a name, or all calls for "".
func (s *Server) Calls(name string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Call
	for _, c := range s.calls {
		if name == "" || c.Name == name {
			c.Params = maps.Clone(c.Params)
			found = append(found, c)
		}
	}
	return found
}

// CountCalls lists the calls by name, status and code. The lock must be held.
func (s *Server) CountCalls() string {
	count := map[string]int{}
	for _, c := range s.calls {
		count[strings.TrimSpace(fmt.Sprintf("%s %d %s", c.Name, c.Status, c.Code))]++
	}
	var out strings.Builder
	for _, k := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(&out, "%s: %d\n", k, count[k])
	}
	return out.String()
}

// Frozen reports whether the server is frozen. The lock must be held.
func (s *Server) Frozen() bool { return s.frozen != nil }

// HangIfFrozen aborts a request after Thaw if the server is frozen.
func (s *Server) HangIfFrozen(r *http.Request) {
	s.mu.Lock()
	thaw := s.frozen
	s.mu.Unlock()
	if thaw != nil {
		hang(r, thaw)
	}
}

// hang waits for thaw, which may be nil, or the end of the request, and aborts the connection.
func hang(r *http.Request, thaw <-chan struct{}) {
	select {
	case <-thaw:
	case <-r.Context().Done():
	}
	panic(http.ErrAbortHandler)
}

// Serve records a call and answers it, or makes it fail. do carries it out while the lock is held;
// it may release the lock with [State.Wait]. A result that is an [http.Handler], such as [Content],
// writes the response itself; the dialect writes all others.
func (s *Server) Serve(
	w http.ResponseWriter, r *http.Request, name string, params map[string]any, do func() (any, *Error),
) {
	s.mu.Lock()
	number := len(s.calls)
	s.calls = append(s.calls, Call{Name: name, Path: r.URL.Path, Params: params, Header: r.Header, At: time.Now()})
	var fault Fault
	if left := s.faults[name]; len(left) > 0 {
		fault, s.faults[name] = left[0], left[1:]
	}
	thaw := s.frozen
	var result any
	var refused *Error
	switch {
	case thaw != nil, fault.Hang, fault.Raw != "":
	case fault.Status != 0 || fault.Code != "":
		refused = &Error{Status: fault.Status, Code: fault.Code, Message: fault.Message, RetryAfter: fault.RetryAfter}
	default:
		result, refused = do()
	}
	s.Notify()
	s.mu.Unlock()
	if fault.Hold != nil {
		select {
		case <-fault.Hold:
		case <-r.Context().Done():
		}
	}
	response := httptest.NewRecorder()
	if name, value, ok := strings.Cut(fault.Header, ": "); ok {
		response.Header().Set(name, value)
	}
	handler, direct := result.(http.Handler)
	switch {
	case fault.Raw != "":
		fault.writeRaw(response)
	case direct:
		handler.ServeHTTP(response, r)
	default:
		s.dialect.Respond(response, result, refused)
	}
	s.mu.Lock()
	if thaw == nil {
		thaw = s.frozen
	}
	if thaw == nil && !fault.Hang && !fault.Lose && !fault.Half {
		s.calls[number].Status = response.Code
	}
	if refused != nil {
		s.calls[number].Code = refused.Code
	}
	s.Notify()
	s.mu.Unlock()
	if thaw != nil || fault.Hang {
		hang(r, thaw)
	}
	fault.send(w, response)
}

// Content returns a handler that answers with the content of a file. kind is its MIME type; ""
// detects it.
func Content(kind string, content []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		_, _ = w.Write(content) // the client may be gone
	})
}

func (f Fault) writeRaw(w http.ResponseWriter) {
	if f.RetryAfter != 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter)))
	}
	if f.Status != 0 {
		w.WriteHeader(f.Status)
	}
	_, _ = w.Write([]byte(f.Raw)) // a recorder does not fail
}

// send sends a response, half of it, or none.
func (f Fault) send(w http.ResponseWriter, response *httptest.ResponseRecorder) {
	if f.Lose {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), response.Header())
	body := response.Body.Bytes()
	if f.Half {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body[:len(body)/2])        // the client may be gone
		_ = http.NewResponseController(w).Flush() // as above
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(response.Code)
	_, _ = w.Write(body) // the client may be gone
}
