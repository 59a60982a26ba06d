package discord

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
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"mailroom/channel"
)

const (
	maxResponse   = 32 << 20 // bytes of an answer
	maxQuote      = 200      // bytes of an answer that an error quotes
	maxRetryAfter = 24 * time.Hour
)

// userAgent has the form that Discord wants, DiscordBot ($url, $versionNumber)
// (https://docs.discord.com/developers/reference#user-agent). Without an address of its
// own the program names one that is reserved for what has none (RFC 2606), rather than
// that of another project.
func userAgent(about string) string {
	if about == "" {
		about = noInfoURL
	}
	version := "0.0.0"
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		version = strings.TrimPrefix(info.Main.Version, "v")
	}
	return "DiscordBot (" + about + ", " + version + ")"
}

const noInfoURL = "https://mailroom.invalid"

// CheckAbout refuses what cannot be the address in a User-Agent.
func CheckAbout(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || len(s) > 200 || strings.ContainsAny(s, "(), \"") {
		return errors.New("it is not an address such as https://example.org/our-bot, without brackets and commas in it")
	}
	return nil
}

// client calls the HTTP API.
type client struct {
	agent  string // User-Agent
	base   *url.URL
	token  string
	http   *http.Client
	limits *rateLimits
}

// CheckAPI reads the address of the API.
func CheckAPI(s string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(s, "/"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("it is not an address such as " + DefaultAPI + ", without a name or password in it")
	}
	return u, nil
}

// newClient reads the options. What is wrong with them is fatal.
func newClient(o Options, l *rateLimits) (*client, error) {
	o.setDefaults()
	base, err := CheckAPI(o.API)
	if err != nil {
		return nil, channel.Fatal(fmt.Errorf("api: %w", err))
	}
	token, err := o.Token()
	if err == nil {
		err = CheckToken(token)
	}
	if err != nil {
		return nil, channel.Fatal(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() // the standard library's own
	transport.MaxIdleConnsPerHost = 16
	// A connection that the platform has closed meanwhile makes a send an unknown one.
	transport.IdleConnTimeout = 20 * time.Second
	return &client{agent: userAgent(o.About), base: base, token: token, limits: l, http: &http.Client{
		Transport: transport,
		// A redirect would take the token to where nobody said that it should go.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// apiError is an answer of the platform that says no.
type apiError struct {
	op          string
	status      int
	code        int // the platform's own; 0: it gave none
	description string
	retryAfter  time.Duration // to wait before the next call
	global      bool          // the wait is for all calls
}

func (e *apiError) Error() string {
	code := ""
	if e.code != 0 {
		code = fmt.Sprintf(", %d", e.code)
	}
	return fmt.Sprintf("%s: Discord answered %d %s%s", e.op, e.status, e.description, code)
}

// transportError is a call without an answer of the platform's.
type transportError struct {
	op         string
	reason     string // without the token
	maybeSent  bool   // the platform may have got it
	retryAfter time.Duration
	global     bool
	cause      error // of the context alone: others may tell the address
}

func (e *transportError) Error() string { return e.op + ": " + e.reason }

func (e *transportError) Unwrap() error { return e.cause }

// retryHint is how long somebody asked to be left alone, and whether with all calls.
func retryHint(err error) (after time.Duration, global bool) {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e.retryAfter, e.global
	}
	if e, ok := errors.AsType[*transportError](err); ok {
		return e.retryAfter, e.global
	}
	if e, ok := errors.AsType[*startLimitError](err); ok {
		return e.after, false
	}
	return 0, false
}

func retryAfter(err error) time.Duration {
	after, _ := retryHint(err)
	return after
}

// request is one call.
type request struct {
	op     string // it is for, in words
	method string // "" is GET
	path   string // with the query
	body   any    // sent as JSON, unless it is nil
	result any    // the answer is read into it, unless it is nil
	noAuth bool   // the address says who calls: no token, and no limit
}

// errorBody is how the platform says no.
type errorBody struct {
	Code    int     `json:"code"`
	Message string  `json:"message"`
	After   float64 `json:"retry_after"` // seconds
	Global  bool    `json:"global"`
	// Errors are of the fields that are wrong, nested like these.
	Errors json.RawMessage `json:"errors"`
}

// request makes one call, unless the limit of its route is used up. Its error is a
// *refused or a *lost.
func (c *client) call(ctx context.Context, k request) error {
	if k.method == "" {
		k.method = http.MethodGet
	}
	route := routeOf(k.method, k.path)
	if wait, global := c.limits.wait(route, time.Now()); wait > 0 && !k.noAuth {
		return &apiError{op: k.op, status: http.StatusTooManyRequests, description: "before it was asked: its limit is used up", retryAfter: wait, global: global}
	}
	var body io.Reader
	if k.body != nil {
		raw, err := json.Marshal(k.body)
		if err != nil {
			return &transportError{op: k.op, reason: err.Error()}
		}
		body = bytes.NewReader(raw)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	a, err := c.doRequest(ctx, k, body)
	if err != nil {
		return err
	}
	defer a.Body.Close() // what is wrong with the rest of an answer changes nothing
	raw, err := io.ReadAll(io.LimitReader(a.Body, maxResponse+1))
	if err != nil {
		return c.newTransportError(ctx, k.op, err, true)
	}
	if !k.noAuth {
		c.limits.update(route, a.Header, time.Now())
	}
	if a.StatusCode >= 300 {
		return c.decodeError(k, a, raw)
	}
	if k.result == nil {
		return nil
	}
	if err := json.Unmarshal(raw, k.result); err != nil || len(raw) > maxResponse {
		return &transportError{op: k.op, reason: "the answer is not what it should be: " + c.redact(raw), maybeSent: true}
	}
	return nil
}

// decodeError reads an answer that says no.
func (c *client) decodeError(k request, a *http.Response, raw []byte) error {
	after := seconds(parseNumber(a.Header.Get("Retry-After")))
	var p errorBody
	if err := json.Unmarshal(raw, &p); err != nil || p.Message == "" && p.Code == 0 {
		e := &transportError{op: k.op, maybeSent: a.StatusCode < 400 || a.StatusCode >= 500, retryAfter: after}
		// Who stands before the platform speaks of the address of this machine.
		e.global = a.StatusCode == http.StatusTooManyRequests
		e.reason = fmt.Sprintf("what answered is not the API (%d %s): %s", a.StatusCode, http.StatusText(a.StatusCode), c.redact(raw))
		return e
	}
	e := &apiError{op: k.op, status: a.StatusCode, code: p.Code, description: c.redact([]byte(strings.TrimPrefix(p.Message, strconv.Itoa(a.StatusCode)+": "))), retryAfter: max(after, seconds(p.After))}
	e.global = a.StatusCode == http.StatusTooManyRequests && (p.Global || a.Header.Get("X-RateLimit-Global") == "true")
	if len(p.Errors) > 0 {
		e.description += " " + c.redact(p.Errors)
	}
	if a.StatusCode == http.StatusTooManyRequests && !k.noAuth {
		c.limits.onRejected(routeOf(k.method, k.path), e, time.Now())
	}
	return e
}

// doRequest makes one request. Its error is a *lost.
func (c *client) doRequest(ctx context.Context, k request, body io.Reader) (*http.Response, error) {
	var got, unwritten atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
		WroteRequest: func(w httptrace.WroteRequestInfo) {
			unwritten.Store(w.Err != nil && ctx.Err() == nil)
		},
	})
	req, err := http.NewRequestWithContext(ctx, k.method, c.base.String()+k.path, body)
	if err != nil {
		return nil, c.newTransportError(ctx, k.op, err, false)
	}
	req.Header.Set("User-Agent", c.agent)
	if !k.noAuth {
		req.Header.Set("Authorization", "Bot "+c.token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	a, err := c.http.Do(req)
	if err != nil {
		return nil, c.newTransportError(ctx, k.op, err, got.Load() && !unwritten.Load())
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
		e.reason = c.errorText(err)
	}
	return e
}

// errorText is an error in words, without the address that was called: one of an
// interaction has its token in it.
func (c *client) errorText(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return c.redact([]byte(err.Error()))
}

// redact is the beginning of a text, as one line without the token.
func (c *client) redact(raw []byte) string {
	text := strings.ToValidUTF8(string(raw[:min(len(raw), 64<<10)]), "\uFFFD")
	for part := range strings.SplitSeq(c.token, ".") {
		if len(part) > 10 {
			text = strings.ReplaceAll(text, part, "(token)")
		}
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

// parseNumber is what a header says, 0 if that is none.
func parseNumber(header string) float64 {
	n, err := strconv.ParseFloat(header, 64)
	if err != nil {
		return 0
	}
	return n
}

func seconds(n float64) time.Duration {
	return time.Duration(min(max(n, 0), maxRetryAfter.Seconds()) * float64(time.Second))
}
