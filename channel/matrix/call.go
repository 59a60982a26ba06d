package matrix

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"mailroom/channel"
	"mailroom/internal/setting"
)

const (
	maxResponse   = 64 << 20 // bytes of a response
	maxQuote      = 200      // bytes of a response in an error
	maxRetryAfter = 24 * time.Hour
)

// client calls the Client-Server API of a homeserver.
type client struct {
	base  *url.URL
	token string // "" for calls without authentication
	http  *http.Client
}

// newClient returns a client for the options. Its errors are fatal.
func newClient(o Options) (*client, error) {
	base, err := setting.ParseBaseURL(o.Homeserver, exampleHomeserver)
	if err != nil {
		return nil, channel.Fatal(fmt.Errorf("homeserver: %w", err))
	}
	c := newAnonymousClient(base)
	if c.token, err = o.Token(); err != nil {
		return nil, channel.Fatal(err)
	}
	if c.token == "" || strings.ContainsFunc(c.token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, channel.Fatal(errors.New("not a Matrix access token: use the single word that a login returns"))
	}
	return c, nil
}

// newAnonymousClient returns a client without a token.
func newAnonymousClient(base *url.URL) *client {
	transport := http.DefaultTransport.(*http.Transport).Clone() // the default transport of net/http
	transport.MaxIdleConnsPerHost = 16
	// Sending on a connection that the server has just closed has an unknown outcome, so idle
	// connections close first.
	transport.IdleConnTimeout = 20 * time.Second
	return &client{base: base, http: &http.Client{
		Transport: transport,
		// Following a redirect would send the token to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// apiError is an error response of the homeserver.
type apiError struct {
	op          string
	code        int    // HTTP status
	errcode     string // such as M_FORBIDDEN
	description string
	retryAfter  time.Duration // minimum pause before the next call
	softLogout  bool          // the access token expired but the session still exists
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%s: the homeserver answered %d %s: %s", e.op, e.code, e.errcode, e.description)
}

// isRoomRefusal reports whether err refuses one room or event only: a 4xx response that concerns
// neither the account nor a rate limit
// (https://spec.matrix.org/latest/client-server-api/#standard-error-response). An unknown errcode
// counts as such a refusal.
func isRoomRefusal(err error) bool {
	e, ok := errors.AsType[*apiError](err)
	if !ok || e.code < 400 || e.code >= 500 || isFatal(err) {
		return false
	}
	return e.code != http.StatusUnauthorized && e.code != http.StatusTooManyRequests && e.errcode != "M_USER_SUSPENDED" && e.errcode != "M_LIMIT_EXCEEDED"
}

// transportError is a call without a valid response from the homeserver.
type transportError struct {
	op         string
	reason     string
	maybeSent  bool // the homeserver may have received the request
	retryAfter time.Duration
	cause      error // the context's error, if it ended the call
}

func (e *transportError) Error() string { return e.op + ": " + e.reason }

func (e *transportError) Unwrap() error { return e.cause }

// retryAfter returns the pause that the homeserver asked for in an error, or 0.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e.retryAfter
	}
	if e, ok := errors.AsType[*transportError](err); ok {
		return e.retryAfter
	}
	return 0
}

// request is one API call. op names the operation in errors.
type request struct {
	op, method string
	path       []string // below /_matrix/client/v3
	query      url.Values
	body       any // encoded as JSON; nil for an empty body
}

// escapePath appends escaped segments to a path.
func escapePath(prefix string, segments ...string) string {
	for _, w := range segments {
		prefix += "/" + url.PathEscape(w)
	}
	return prefix
}

// call makes one API call and decodes the response into out. Its error is an *apiError or a
// *transportError.
func (c *client) call(ctx context.Context, r request, out any, timeout time.Duration) error {
	var body io.Reader
	if r.body != nil {
		var raw bytes.Buffer
		e := json.NewEncoder(&raw)
		e.SetEscapeHTML(false) // escaping lengthens the text beyond what the homeserver counts
		if err := e.Encode(r.body); err != nil {
			return &transportError{op: r.op, reason: err.Error()}
		}
		body = &raw
	}
	to := escapePath("/_matrix/client/v3", r.path...)
	if len(r.query) > 0 {
		to += "?" + r.query.Encode()
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	a, err := c.doRequest(ctx, r.op, r.method, to, body)
	if err != nil {
		return err
	}
	defer a.Body.Close() // the body has been read
	raw, err := io.ReadAll(io.LimitReader(a.Body, maxResponse+1))
	if err != nil {
		return c.newTransportError(ctx, r.op, err, true)
	}
	if a.StatusCode/100 != 2 {
		return c.decodeError(r.op, a, raw)
	}
	if out == nil {
		out = new(map[string]json.RawMessage)
	}
	if len(raw) > maxResponse || json.Unmarshal(raw, out) != nil {
		return &transportError{op: r.op, reason: "unexpected response: " + c.redact(raw), maybeSent: true}
	}
	return nil
}

// decodeError decodes a response whose status is not 2xx.
func (c *client) decodeError(op string, a *http.Response, raw []byte) error {
	var body struct {
		Name    string  `json:"errcode"`
		Message string  `json:"error"`
		After   float64 `json:"retry_after_ms"`
		Soft    bool    `json:"soft_logout"`
	}
	after := parseRetryAfter(a.Header.Get("Retry-After"))
	if len(raw) > maxResponse || json.Unmarshal(raw, &body) != nil || body.Name == "" {
		return &transportError{
			op: op, maybeSent: a.StatusCode < 300 || a.StatusCode >= 500, retryAfter: after,
			reason: fmt.Sprintf("response is not from a homeserver (%d %s): %s", a.StatusCode, http.StatusText(a.StatusCode), c.redact(raw)),
		}
	}
	if ms := int64(min(max(body.After, 0), float64(maxRetryAfter/time.Millisecond))); ms > 0 {
		after = max(after, time.Duration(ms)*time.Millisecond)
	}
	return &apiError{op: op, code: a.StatusCode, errcode: c.redact([]byte(body.Name)), description: c.redact([]byte(body.Message)), retryAfter: after, softLogout: body.Soft}
}

// doRequest makes one HTTP request. Its error is a *transportError.
func (c *client) doRequest(ctx context.Context, op, method, to string, body io.Reader) (*http.Response, error) {
	var got, unwritten atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
		WroteRequest: func(w httptrace.WroteRequestInfo) {
			unwritten.Store(w.Err != nil && ctx.Err() == nil)
		},
	})
	req, err := http.NewRequestWithContext(ctx, method, c.base.String()+to, body)
	if err != nil {
		return nil, c.newTransportError(ctx, op, err, false)
	}
	req.Header.Set("User-Agent", "mailroom")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	a, err := c.http.Do(req)
	if err != nil {
		return nil, c.newTransportError(ctx, op, err, got.Load() && !unwritten.Load())
	}
	return a, nil
}

// newTransportError describes a request that got no response. maybeSent reports whether the
// homeserver may have received it.
func (c *client) newTransportError(ctx context.Context, op string, err error, written bool) *transportError {
	e := &transportError{op: op, maybeSent: written, cause: ctx.Err()}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e.reason = "request timed out"
	case ctx.Err() != nil:
		e.reason = "request cancelled"
	default:
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		e.reason = c.redact([]byte(err.Error()))
	}
	return e
}

// redact returns the beginning of raw as one line without the token.
func (c *client) redact(raw []byte) string {
	text := strings.ToValidUTF8(string(raw[:min(len(raw), 64<<10)]), "\uFFFD")
	if c.token != "" {
		text = strings.ReplaceAll(text, c.token, "(token)")
	}
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxQuote {
		end := maxQuote
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end] + "…"
	}
	return text
}

// parseRetryAfter parses a Retry-After header in seconds.
func parseRetryAfter(header string) time.Duration {
	n, err := strconv.ParseInt(header, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(min(max(n, 0), int64(maxRetryAfter/time.Second))) * time.Second
}
