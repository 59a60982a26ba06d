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
	"mailroom/internal/setting"
)

const (
	maxResponse   = 32 << 20 // bytes of a response
	maxQuote      = 200      // bytes of a response quoted in an error
	maxRetryAfter = 24 * time.Hour
)

// userAgent has the form that Discord requires, DiscordBot ($url, $versionNumber)
// (https://docs.discord.com/developers/reference#user-agent). Without an About URL it names a
// host under the reserved domain .invalid (RFC 2606).
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

// checkAbout rejects a string that cannot be the URL in a User-Agent.
func checkAbout(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || len(s) > 200 || strings.ContainsAny(s, "(), \"") {
		return errors.New("not a URL such as https://example.org/our-bot, without parentheses, commas and spaces")
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

// newClient returns a client for the options. Its errors are fatal.
func newClient(o Options, l *rateLimits) (*client, error) {
	o.setDefaults()
	base, err := setting.ParseBaseURL(o.API, DefaultAPI)
	if err != nil {
		return nil, channel.Fatal(fmt.Errorf("api: %w", err))
	}
	token, err := o.Token()
	if err == nil {
		err = checkToken(token)
	}
	if err != nil {
		return nil, channel.Fatal(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() // guaranteed by net/http
	transport.MaxIdleConnsPerHost = 16
	// A send over a connection that the server has just closed has an unknown outcome, so idle
	// connections are dropped early.
	transport.IdleConnTimeout = 20 * time.Second
	return &client{agent: userAgent(o.About), base: base, token: token, limits: l, http: &http.Client{
		Transport: transport,
		// A redirect could carry the token to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// apiError is an error response of the platform.
type apiError struct {
	op          string
	status      int
	code        int // Discord's JSON error code; 0 if none
	description string
	retryAfter  time.Duration // 0: none given
	global      bool          // the pause applies to all calls
}

func (e *apiError) Error() string {
	code := ""
	if e.code != 0 {
		code = fmt.Sprintf(", %d", e.code)
	}
	return fmt.Sprintf("%s: Discord answered %d %s%s", e.op, e.status, e.description, code)
}

// transportError is a call without a valid response from the platform.
type transportError struct {
	op         string
	reason     string // redacted
	maybeSent  bool   // the request may have reached the platform
	retryAfter time.Duration
	global     bool
	cause      error // only a context error: other errors can contain the URL
}

func (e *transportError) Error() string { return e.op + ": " + e.reason }

func (e *transportError) Unwrap() error { return e.cause }

// retryHint returns the pause that an error asks for, and whether it applies to all calls.
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

// retryAfter returns the pause that the platform asked for in an error, or 0.
func retryAfter(err error) time.Duration {
	after, _ := retryHint(err)
	return after
}

// request is one call of the HTTP API.
type request struct {
	op     string // names the operation in errors
	method string // "" is GET
	path   string // with the query
	body   any    // sent as JSON; nil sends no body
	result any    // receives the decoded response; nil discards it
	noAuth bool   // the URL authenticates the call: no token, and no rate limit
}

// errorBody is the body of an error response.
type errorBody struct {
	Code    int     `json:"code"`
	Message string  `json:"message"`
	After   float64 `json:"retry_after"` // seconds
	Global  bool    `json:"global"`
	// Errors holds the errors of single fields, nested by field name.
	Errors json.RawMessage `json:"errors"`
}

// call makes one call, unless the rate limit of its route is used up. The error is an *apiError
// or a *transportError.
func (c *client) call(ctx context.Context, r request) error {
	if r.method == "" {
		r.method = http.MethodGet
	}
	route := routeOf(r.method, r.path)
	if wait, global := c.limits.wait(route, time.Now()); wait > 0 && !r.noAuth {
		return &apiError{op: r.op, status: http.StatusTooManyRequests, description: "(not sent: the rate limit is used up)", retryAfter: wait, global: global}
	}
	var body io.Reader
	if r.body != nil {
		raw, err := json.Marshal(r.body)
		if err != nil {
			return &transportError{op: r.op, reason: err.Error()}
		}
		body = bytes.NewReader(raw)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.doRequest(ctx, r, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close() // the body has been read; a close error changes nothing
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	if err != nil {
		return c.newTransportError(ctx, r.op, err, true)
	}
	if !r.noAuth {
		c.limits.update(route, resp.Header, time.Now())
	}
	if resp.StatusCode >= 300 {
		return c.decodeError(r, resp, raw)
	}
	if r.result == nil {
		return nil
	}
	if err := json.Unmarshal(raw, r.result); err != nil || len(raw) > maxResponse {
		return &transportError{op: r.op, reason: "unexpected response: " + c.redact(raw), maybeSent: true}
	}
	return nil
}

// decodeError decodes an error response.
func (c *client) decodeError(r request, resp *http.Response, raw []byte) error {
	after := seconds(parseNumber(resp.Header.Get("Retry-After")))
	var p errorBody
	if err := json.Unmarshal(raw, &p); err != nil || p.Message == "" && p.Code == 0 {
		e := &transportError{op: r.op, maybeSent: resp.StatusCode < 400 || resp.StatusCode >= 500, retryAfter: after}
		// A proxy in front of Discord limits the IP address, so all calls.
		e.global = resp.StatusCode == http.StatusTooManyRequests
		e.reason = fmt.Sprintf("response is not from the Discord API (%d %s): %s", resp.StatusCode, http.StatusText(resp.StatusCode), c.redact(raw))
		return e
	}
	e := &apiError{op: r.op, status: resp.StatusCode, code: p.Code, description: c.redact([]byte(strings.TrimPrefix(p.Message, strconv.Itoa(resp.StatusCode)+": "))), retryAfter: max(after, seconds(p.After))}
	e.global = resp.StatusCode == http.StatusTooManyRequests && (p.Global || resp.Header.Get("X-RateLimit-Global") == "true")
	if len(p.Errors) > 0 {
		e.description += " " + c.redact(p.Errors)
	}
	if resp.StatusCode == http.StatusTooManyRequests && !r.noAuth {
		c.limits.onRejected(routeOf(r.method, r.path), e, time.Now())
	}
	return e
}

// doRequest makes one HTTP request. Its error is a *transportError.
func (c *client) doRequest(ctx context.Context, r request, body io.Reader) (*http.Response, error) {
	var got, unwritten atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
		WroteRequest: func(w httptrace.WroteRequestInfo) {
			unwritten.Store(w.Err != nil && ctx.Err() == nil)
		},
	})
	req, err := http.NewRequestWithContext(ctx, r.method, c.base.String()+r.path, body)
	if err != nil {
		return nil, c.newTransportError(ctx, r.op, err, false)
	}
	req.Header.Set("User-Agent", c.agent)
	if !r.noAuth {
		req.Header.Set("Authorization", "Bot "+c.token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.newTransportError(ctx, r.op, err, got.Load() && !unwritten.Load())
	}
	return resp, nil
}

// newTransportError describes a request that got no response. maybeSent reports whether the
// platform may have received it.
func (c *client) newTransportError(ctx context.Context, op string, err error, maybeSent bool) *transportError {
	e := &transportError{op: op, maybeSent: maybeSent, cause: ctx.Err()}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e.reason = "request timed out"
	case ctx.Err() != nil:
		e.reason = "request cancelled"
	default:
		e.reason = c.errorText(err)
	}
	return e
}

// errorText returns the text of an error without the URL: the URL of an interaction contains
// its token.
func (c *client) errorText(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return c.redact([]byte(err.Error()))
}

// redact returns the beginning of raw as one line without the token.
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

// parseNumber parses a header with a number. It returns 0 for anything else.
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
