package httpcall_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
	"mailroom/internal/machinetest"
)

const secret = "very-secret-token"

// newClient returns a client of the API at an address, with a bound of 1000 bytes.
func newClient(t *testing.T, address string) *httpcall.Client {
	t.Helper()
	base, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c := httpcall.New(httpcall.Options{Platform: "Example", API: "the Example API", Base: base,
		Secrets: []string{"", secret}, MaxResponse: 1000})
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// serve starts an API.
func serve(t *testing.T, h http.HandlerFunc) *httpcall.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return newClient(t, s.URL)
}

// serveConn starts a server that handles each connection with f and closes it.
func serveConn(t *testing.T, f func(net.Conn)) *httpcall.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed by the test
			}
			f(conn)
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return newClient(t, "http://"+l.Addr().String())
}

func post(body []byte) httpcall.Request {
	return httpcall.Request{Op: "send message", Method: http.MethodPost, URL: "/" + secret + "/send", Body: body,
		Timeout: 10 * time.Second}
}

// transportError fails the test unless err is a TransportError with the outcome. It checks that the
// error contains neither the secret nor the URL.
func transportError(t *testing.T, err error, maybeSent bool) *httpcall.TransportError {
	t.Helper()
	e, ok := errors.AsType[*httpcall.TransportError](err)
	if !ok || e.MaybeSent != maybeSent {
		t.Fatalf("error %+v, want a TransportError with MaybeSent %t", err, maybeSent)
	}
	if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "/send") {
		t.Fatalf("error contains the URL: %v", err)
	}
	return e
}

func TestConnectionRefusedIsNotSent(t *testing.T) {
	c := newClient(t, "http://"+machinetest.Reserve(t))
	_, err := c.Do(t.Context(), post([]byte("{}")))
	transportError(t, err, false)
}

func TestConnectionClosedWhileWritingIsNotSent(t *testing.T) {
	c := serveConn(t, func(conn net.Conn) {
		if err := conn.(*net.TCPConn).SetLinger(0); err != nil { // close with a reset
			t.Error(err)
		}
		if _, err := conn.Read(make([]byte, 10)); err != nil {
			t.Error(err)
		}
	})
	_, err := c.Do(t.Context(), post(make([]byte, 64<<20))) // more than the buffers of a connection hold
	transportError(t, err, false)
}

func TestConnectionClosedBeforeTheResponseIsMaybeSent(t *testing.T) {
	c := serveConn(t, func(conn net.Conn) {
		if _, err := conn.Read(make([]byte, 4096)); err != nil {
			t.Error(err)
		}
	})
	_, err := c.Do(t.Context(), post(nil))
	transportError(t, err, true)
}

func TestConnectionClosedInTheResponseIsMaybeSent(t *testing.T) {
	c := serveConn(t, func(conn net.Conn) {
		if _, err := conn.Read(make([]byte, 4096)); err != nil {
			t.Error(err)
		}
		// a lost write fails the test below
		io.WriteString(conn, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 100\r\n\r\n{")
	})
	a, err := c.Do(t.Context(), post(nil))
	transportError(t, err, true)
	if a.Status != http.StatusTooManyRequests || a.RetryAfter() != 7*time.Second {
		t.Errorf("response %+v: status and header are lost", a)
	}
}

func TestCancelledAndTimedOutCallsAreMaybeSent(t *testing.T) {
	arrived := make(chan struct{}, 2)
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	r := post(nil)
	r.Timeout = 200 * time.Millisecond
	_, err := c.Do(t.Context(), r)
	if e := transportError(t, err, true); e.Reason != "request timed out" || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("timed out: %v", err)
	}
	<-arrived
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	_, err = c.Do(ctx, post(nil))
	if e := transportError(t, err, true); e.Reason != "request cancelled" || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	_, err = c.Do(ctx, post(nil)) // cancelled before it began
	transportError(t, err, false)
}

func TestOversizedResponseIsCut(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Repeat("x", 1000+int(r.ContentLength)))
	})
	for extra, want := range []bool{false, true} {
		a, err := c.Do(t.Context(), post(make([]byte, extra)))
		if err != nil || a.TooLarge != want || len(a.Body) != 1000 {
			t.Errorf("%d bytes over the bound: %v, too large: %t, %d bytes", extra, err, a.TooLarge, len(a.Body))
		}
	}
	r := post(nil)
	r.MaxResponse = 10
	if a, err := c.Do(t.Context(), r); err != nil || !a.TooLarge || len(a.Body) != 10 {
		t.Errorf("a bound of the request: %v, too large: %t, %d bytes", err, a.TooLarge, len(a.Body))
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("request to another host, with %q", r.Header.Get("Authorization"))
	}))
	defer other.Close()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	r := post(nil)
	r.Header = http.Header{"Authorization": {"Bearer " + secret}}
	if a, err := c.Do(t.Context(), r); err != nil || a.Status != http.StatusTemporaryRedirect {
		t.Errorf("response %+v, error %v", a, err)
	}
	f, _, err := c.Open(t.Context(), r, 10)
	if e, ok := errors.AsType[*httpcall.Refusal](err); f != nil || !ok || e.Status != http.StatusTemporaryRedirect {
		t.Errorf("download: %v", err)
	}
}

func TestQuotedTextIsRedactedValidAndShort(t *testing.T) {
	c := newClient(t, "http://localhost")
	text := c.Redact([]byte("a " + secret + "\r\n\x1b \xff" + strings.Repeat("é", 1000)))
	if !strings.HasPrefix(text, "a (token) ") || strings.ContainsAny(text, "\r\n") || !utf8.ValidString(text) ||
		len(text) > 210 {
		t.Errorf("text %q", text)
	}
	e := c.NotAPI("send message", httpcall.Response{Status: 502, Header: http.Header{"Retry-After": {"5"}},
		Body: []byte("<b>" + secret + "\xff</b>")}, true)
	if want := "send message: response is not from the Example API (502 Bad Gateway): <b>(token)\uFFFD</b>"; e.Error() != want || !e.MaybeSent || e.RetryAfter != 5*time.Second {
		t.Errorf("error %+v, want %q", e, want)
	}
	err := &url.Error{Op: "Get", URL: "http://localhost/" + secret, Err: errors.New("broken by " + secret)}
	if got := c.ErrorText(err); got != "broken by (token)" {
		t.Errorf("error text %q", got)
	}
}

func TestRequestsHaveTheirHeadersAndBody(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprint(w, r.Method, " ", r.URL.RequestURI(), " ", r.Header.Get("User-Agent"), " ", r.Header.Get("Content-Type"),
			" ", r.Header.Get("X-A"), " ", string(body), " ", err)
	})
	for want, r := range map[string]httpcall.Request{
		"GET /a?b=c mailroom  1  <nil>":               {URL: "/a?b=c", Header: http.Header{"X-A": {"1"}}},
		"POST /a mailroom application/json  {} <nil>": {URL: "/a", Method: http.MethodPost, Body: []byte("{}")},
		"POST /a mailroom text/plain  x <nil>": {URL: "/a", Method: http.MethodPost, Body: []byte("x"),
			Header: http.Header{"Content-Type": {"text/plain"}}},
	} {
		r.Timeout = 10 * time.Second
		if a, err := c.Do(t.Context(), r); err != nil || string(a.Body) != want {
			t.Errorf("got %q, %v; want %q", a.Body, err, want)
		}
	}
}

func TestDownloadsAreBounded(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/gone":
			w.Header().Set("Retry-After", "3")
			http.Error(w, "no such file", http.StatusNotFound)
		case "/broken":
			w.Header().Set("Content-Length", "20")
			fmt.Fprint(w, "half")
		default:
			fmt.Fprint(w, "0123456789")
		}
	})
	for _, x := range []struct {
		path string
		most int64
		want string
		err  string
	}{
		{"/whole", 10, "0123456789", ""},
		{"/..%2f%00?x=%ff", 10, "0123456789", ""},
		{"/large", 9, "", "file exceeds 9 bytes"},
		{"/broken", 10, "half", "download file: unexpected EOF"},
	} {
		f, _, err := c.Open(t.Context(), httpcall.Request{Op: "download file", URL: x.path}, x.most)
		if err != nil {
			t.Errorf("%s: %v", x.path, err)
			continue
		}
		raw, err := io.ReadAll(f)
		if string(raw) != x.want || err == nil && x.err != "" || err != nil && err.Error() != x.err {
			t.Errorf("%s: %q, %v; want %q, %s", x.path, raw, err, x.want, x.err)
		}
		if err := f.Close(); err != nil {
			t.Errorf("%s: close: %v", x.path, err)
		}
	}
	_, a, err := c.Open(t.Context(), httpcall.Request{Op: "download file", URL: "/gone"}, 10)
	after, _ := httpcall.PauseOf(err)
	if err == nil || err.Error() != "download file: Example answered 404 Not Found" || after != 3*time.Second ||
		string(a.Body) != "no such file\n" {
		t.Errorf("refused download: %v, pause %s, body %q", err, after, a.Body)
	}
}

func TestRetryAfterIsBounded(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-1": 0, "NaN": 0, "-Inf": 0, "7": 7 * time.Second, "0.065": 65 * time.Millisecond,
		"1.001":               1001 * time.Millisecond,
		"9223372036854775807": 24 * time.Hour, "1e999": 0, "+Inf": 24 * time.Hour,
		"Fri, 02 Jan 2026 03:04:35 GMT": 30 * time.Second, "Thu, 01 Jan 2026 03:04:35 GMT": 0,
		"Fri, 02 Jan 2099 03:04:35 GMT": 24 * time.Hour,
	} {
		if got := httpcall.ParseRetryAfter(header, now); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

func TestRefusalsNameStatusCodeAndText(t *testing.T) {
	for want, e := range map[string]httpcall.Refusal{
		"403 M_FORBIDDEN: no access":       {Status: 403, Code: "M_FORBIDDEN", Text: "no access"},
		"404 Not Found":                    {Status: 404, Text: "Not Found"},
		"is_archived":                      {Code: "is_archived"},
		"missing_scope (needs files:read)": {Code: "missing_scope", Text: "needs files:read"},
	} {
		e.Op, e.Platform = "send message", "Example"
		if got := e.Error(); got != "send message: Example answered "+want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestSendErrorClassifiesRefusalsAndTransportErrors(t *testing.T) {
	classOf := func(e *httpcall.Refusal) httpcall.Class {
		switch e.Code {
		case "gone":
			return httpcall.ClassGone
		case "later":
			return httpcall.ClassUnavailable
		case "broken":
			return httpcall.ClassUnknown
		}
		return httpcall.ClassPermanent
	}
	const pause = 3 * time.Second
	for _, x := range []struct {
		err                       error
		class                     mailroom.Class
		gone, everywhere, unknown bool
	}{
		{err: &httpcall.Refusal{Code: "other"}, class: mailroom.ClassPermanent},
		{err: &httpcall.Refusal{Code: "gone"}, class: mailroom.ClassPermanent, gone: true},
		{err: &httpcall.Refusal{Code: "later", RetryAfter: pause}, class: mailroom.ClassUnavailable},
		{err: &httpcall.Refusal{Code: "later", RetryAfter: pause, Everywhere: true}, class: mailroom.ClassUnavailable, everywhere: true},
		{err: &httpcall.Refusal{Code: "broken", RetryAfter: pause}, class: mailroom.ClassUnavailable, unknown: true},
		{err: &httpcall.TransportError{RetryAfter: pause}, class: mailroom.ClassUnavailable},
		{err: &httpcall.TransportError{RetryAfter: pause, Everywhere: true}, class: mailroom.ClassUnavailable, everywhere: true},
		{err: &httpcall.TransportError{RetryAfter: pause, MaybeSent: true}, class: mailroom.ClassUnavailable, unknown: true},
	} {
		err := httpcall.SendError(fmt.Errorf("wrapped: %w", x.err), classOf)
		f, ok := errors.AsType[*mailroom.Failure](err)
		if !ok || f.Class != x.class || !errors.Is(err, x.err) {
			t.Errorf("%+v: %+v", x.err, err)
			continue
		}
		if errors.Is(err, chat.ErrGone) != x.gone || errors.Is(err, chat.ErrEverywhere) != x.everywhere ||
			errors.Is(err, mailroom.ErrUnknown) != x.unknown {
			t.Errorf("%+v: %v", x.err, err)
		}
		if x.class == mailroom.ClassUnavailable && f.RetryAfter != pause {
			t.Errorf("%+v: pause %s", x.err, f.RetryAfter)
		}
	}
	if err := httpcall.SendError(nil, classOf); err != nil {
		t.Errorf("no error: %v", err)
	}
}
