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
)

const (
	maxResponse   = 64 << 20 // bytes of an answer
	maxQuote      = 200      // bytes of an answer that an error quotes
	maxRetryAfter = 24 * time.Hour
)

// client calls a homeserver.
type client struct {
	base  *url.URL
	token string // "" for calls that need none
	http  *http.Client
}

// CheckHomeserver reads the address of a homeserver.
func CheckHomeserver(s string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(s, "/"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("it is not an address such as https://matrix.example.org, without a name or password in it")
	}
	return u, nil
}

// newClient reads the options. What is wrong with them is fatal.
func newClient(o Options) (*client, error) {
	base, err := CheckHomeserver(o.Homeserver)
	if err != nil {
		return nil, channel.Fatal(fmt.Errorf("homeserver: %w", err))
	}
	c := newAnonymousClient(base)
	if c.token, err = o.Token(); err != nil {
		return nil, channel.Fatal(err)
	}
	if c.token == "" || strings.ContainsFunc(c.token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, channel.Fatal(errors.New("this is no access token of Matrix: it is one word, as a login gives it"))
	}
	return c, nil
}

// newAnonymousClient makes a client without a token.
func newAnonymousClient(base *url.URL) *client {
	transport := http.DefaultTransport.(*http.Transport).Clone() // the standard library's own
	transport.MaxIdleConnsPerHost = 16
	// A connection that the server has closed meanwhile makes a send an unknown one.
	transport.IdleConnTimeout = 20 * time.Second
	return &client{base: base, http: &http.Client{
		Transport: transport,
		// A redirect would take the token to where nobody said that it should go.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// apiError is an answer of the homeserver that says no.
type apiError struct {
	op          string
	code        int    // of HTTP
	errcode     string // such as M_FORBIDDEN
	description string
	retryAfter  time.Duration // to wait before the next call
	softLogout  bool          // the token is over, and the session is not
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%s: the homeserver answered %d %s: %s", e.op, e.code, e.errcode, e.description)
}

// isRoomRefusal reports whether an error is a refusal that concerns the room or the event
// it was asked about, and nothing else: a 4xx that is about neither the account nor the
// moment (https://spec.matrix.org/latest/client-server-api/#standard-error-response). An
// errcode that is not known is taken for one.
func isRoomRefusal(err error) bool {
	e, ok := errors.AsType[*apiError](err)
	if !ok || e.code < 400 || e.code >= 500 || isFatal(err) {
		return false
	}
	return e.code != http.StatusUnauthorized && e.code != http.StatusTooManyRequests && e.errcode != "M_USER_SUSPENDED" && e.errcode != "M_LIMIT_EXCEEDED"
}

// transportError is a call without an answer of the homeserver's.
type transportError struct {
	op         string
	reason     string
	maybeSent  bool // the homeserver may have got it
	retryAfter time.Duration
	cause      error // of the context alone
}

func (e *transportError) Error() string { return e.op + ": " + e.reason }

func (e *transportError) Unwrap() error { return e.cause }

// retryAfter is how long the homeserver asked to be left alone.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e.retryAfter
	}
	if e, ok := errors.AsType[*transportError](err); ok {
		return e.retryAfter
	}
	return 0
}

// request is one call. what says in words what it is for.
type request struct {
	op, method string
	path       []string // after /_matrix/client/v3
	query      url.Values
	body       any // sent as JSON; nil for none
}

// escapePath is the escaped path of a call.
func escapePath(begin string, words ...string) string {
	for _, w := range words {
		begin += "/" + url.PathEscape(w)
	}
	return begin
}

// call makes one call. Its error is a *refused or a *lost.
func (c *client) call(ctx context.Context, r request, out any, within time.Duration) error {
	var body io.Reader
	if r.body != nil {
		var raw bytes.Buffer
		e := json.NewEncoder(&raw)
		e.SetEscapeHTML(false) // which would make it longer than the homeserver has it
		if err := e.Encode(r.body); err != nil {
			return &transportError{op: r.op, reason: err.Error()}
		}
		body = &raw
	}
	to := escapePath("/_matrix/client/v3", r.path...)
	if len(r.query) > 0 {
		to += "?" + r.query.Encode()
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	a, err := c.doRequest(ctx, r.op, r.method, to, body)
	if err != nil {
		return err
	}
	defer a.Body.Close() // what is wrong with the rest of an answer changes nothing
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
		return &transportError{op: r.op, reason: "the answer is not what it should be: " + c.redact(raw), maybeSent: true}
	}
	return nil
}

// decodeError reads an answer that is not 2xx.
func (c *client) decodeError(what string, a *http.Response, raw []byte) error {
	var said struct {
		Name  string  `json:"errcode"`
		Words string  `json:"error"`
		After float64 `json:"retry_after_ms"`
		Soft  bool    `json:"soft_logout"`
	}
	after := parseRetryAfter(a.Header.Get("Retry-After"))
	if len(raw) > maxResponse || json.Unmarshal(raw, &said) != nil || said.Name == "" {
		return &transportError{
			op: what, maybeSent: a.StatusCode < 300 || a.StatusCode >= 500, retryAfter: after,
			reason: fmt.Sprintf("what answered is not a homeserver (%d %s): %s", a.StatusCode, http.StatusText(a.StatusCode), c.redact(raw)),
		}
	}
	if ms := int64(min(max(said.After, 0), float64(maxRetryAfter/time.Millisecond))); ms > 0 {
		after = max(after, time.Duration(ms)*time.Millisecond)
	}
	return &apiError{op: what, code: a.StatusCode, errcode: c.redact([]byte(said.Name)), description: c.redact([]byte(said.Words)), retryAfter: after, softLogout: said.Soft}
}

// doRequest makes one request. Its error is a *lost.
func (c *client) doRequest(ctx context.Context, what, method, to string, body io.Reader) (*http.Response, error) {
	var got, unwritten atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
		WroteRequest: func(w httptrace.WroteRequestInfo) {
			unwritten.Store(w.Err != nil && ctx.Err() == nil)
		},
	})
	req, err := http.NewRequestWithContext(ctx, method, c.base.String()+to, body)
	if err != nil {
		return nil, c.newTransportError(ctx, what, err, false)
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
		return nil, c.newTransportError(ctx, what, err, got.Load() && !unwritten.Load())
	}
	return a, nil
}

// newTransportError is the error of a call that got no answer.
func (c *client) newTransportError(ctx context.Context, what string, err error, written bool) *transportError {
	e := &transportError{op: what, maybeSent: written, cause: ctx.Err()}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e.reason = "no answer in time"
	case ctx.Err() != nil:
		e.reason = "it was broken off"
	default:
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		e.reason = c.redact([]byte(err.Error()))
	}
	return e
}

// redact is the beginning of a text, as one line without the token.
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

// parseRetryAfter reads the header of that name.
func parseRetryAfter(header string) time.Duration {
	n, err := strconv.ParseInt(header, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(min(max(n, 0), int64(maxRetryAfter/time.Second))) * time.Second
}
