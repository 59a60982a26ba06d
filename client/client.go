package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"mailroom"
	"mailroom/api"
)

// Client calls one server. It is safe for concurrent use.
//
// Every error of a call is an *[mailroom.Error] with the server's code. Its code is
// CodeUnavailable when no answer came and CodeInvalid when the base URL is not a
// URL. When the caller's context has ended, the error wraps that context's cause.
//
// It has one method for each operation of a user, as the API names it: most callers use methods on
// threads, runs and tickets together, so groups would only lengthen the calls. Two groups have
// callers of their own: Work is the protocol of worker processes (package worker), and Projects has
// reservations and notifications (package agentmail).
type Client struct {
	Work     Work     // calls of worker processes
	Projects Projects // reservations and notifications
	// Schedules send a message at their times.
	Schedules Schedules

	// Set by [New].
	base    string
	token   string
	http    *http.Client
	options options
}

type options struct {
	http     *http.Client
	timeout  time.Duration
	attempts uint
	retryFor time.Duration // set by WithRetryTimeout
	idle     time.Duration // set by WithIdleTimeout
	first    time.Duration
	longest  time.Duration
	onOutage func(error)
}

// ErrForeign is in the tree of an error if something other than a Mailroom server has answered.
var ErrForeign = errors.New("no Mailroom server answers like that")

// Option changes a default of [New].
type Option func(*options)

// WithHTTPClient makes calls through h, which must not have a Timeout.
func WithHTTPClient(h *http.Client) Option { return func(o *options) { o.http = h } }

// WithTimeout bounds one attempt of a call that neither streams nor waits. The default is 30 s.
func WithTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// WithMaxAttempts bounds how often an unanswered submit or decision is sent, and how often Follow and WaitRun try
// their first connection; the default is 5, the minimum 1.
func WithMaxAttempts(n int) Option { return func(o *options) { o.attempts = uint(max(n, 1)) } }

// WithRetryTimeout bounds how long Follow and WaitRun, once connected, try to
// reconnect to a server that does not answer; default 15 minutes, 0 is no bound.
func WithRetryTimeout(d time.Duration) Option { return func(o *options) { o.retryFor = d } }

// WithIdleTimeout sets how long a stream may deliver no byte before the client
// drops the connection; default 35 s, which is three heartbeats of the server.
func WithIdleTimeout(d time.Duration) Option { return func(o *options) { o.idle = d } }

// WithOutage makes Follow and WaitRun call f with the reason when they have failed
// to reach the server for some seconds, and with nil once they reach it again.
// f must return quickly: it runs on the goroutine of the call.
func WithOutage(f func(err error)) Option { return func(o *options) { o.onOutage = f } }

// WithBackoff sets the first and the longest pause between attempts; the defaults are 100 ms and 10 s. Pauses grow
// exponentially and are randomized.
func WithBackoff(first, longest time.Duration) Option {
	return func(o *options) { o.first, o.longest = first, longest }
}

// New returns a client of the server at baseURL, such as "http://127.0.0.1:8420".
// With an empty token it sends none.
func New(baseURL, token string, opts ...Option) *Client {
	o := options{
		http: &http.Client{}, timeout: 30 * time.Second, attempts: 5, retryFor: 15 * time.Minute,
		onOutage: func(error) {}, idle: 35 * time.Second, first: 100 * time.Millisecond, longest: 10 * time.Second,
	}
	for _, set := range opts {
		set(&o)
	}
	c := &Client{base: strings.TrimRight(baseURL, "/"), token: token, http: o.http, options: o}
	c.Work, c.Projects, c.Schedules = Work{c}, Projects{c}, Schedules{c}
	return c
}

func (c *Client) pauses() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.RandomizationFactor, b.Multiplier = c.options.first, c.options.longest, 0.5, 2
	b.Reset()
	return b
}

// request is one call. body is encoded as JSON unless it is nil. content is sent unchanged.
type request struct {
	method, path string
	query        url.Values
	header       http.Header
	body         any
	content      io.Reader
}

// path joins segments of a URL path, each escaped.
func path(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		// url.PathEscape keeps dots, but proxies and servers resolve the segments "." and "..".
		b.WriteString(strings.ReplaceAll(url.PathEscape(s), ".", "%2E"))
	}
	return b.String()
}

// call sends q once and decodes the response into out, unless out is nil.
func (c *Client) call(ctx context.Context, q request, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.timeout)
	defer cancel()
	return c.exchange(ctx, q, out)
}

func (c *Client) exchange(ctx context.Context, q request, out any) error {
	resp, err := c.send(ctx, q)
	if err != nil {
		return err
	}
	defer closeBody(resp)
	if out == nil || resp.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		if kind := mediaType(resp); kind != "application/json" {
			return &mailroom.Error{Code: mailroom.CodeUnavailable, Cause: ErrForeign,
				Message: fmt.Sprintf("%s answered %s with the type %q", c.base, q.path, kind)}
		}
		return c.unanswered(ctx, fmt.Errorf("read the answer of %s %s: %w", q.method, q.path, err))
	}
	return nil
}

// send returns the response if its status is 2xx. The caller closes its body.
func (c *Client) send(ctx context.Context, q request) (*http.Response, error) {
	req, err := c.request(ctx, q)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unanswered(ctx, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer closeBody(resp)
		return nil, c.refusal(resp)
	}
	return resp, nil
}

func (c *Client) request(ctx context.Context, q request) (*http.Request, error) {
	at := c.base + q.path
	if len(q.query) > 0 {
		at += "?" + q.query.Encode()
	}
	body, kind := q.content, "application/octet-stream"
	if q.body != nil {
		if err := checkText(q.body); err != nil {
			return nil, err
		}
		raw := &bytes.Buffer{}
		encode := json.NewEncoder(raw)
		encode.SetEscapeHTML(false) // agents send markup, which escaping only makes longer
		if err := encode.Encode(q.body); err != nil {
			return nil, mailroom.Errorf(mailroom.CodeInvalid, "encode the body of %s %s: %w", q.method, q.path, err)
		}
		body, kind = bytes.NewReader(bytes.TrimSuffix(raw.Bytes(), []byte("\n"))), "application/json"
	}
	req, err := http.NewRequestWithContext(ctx, q.method, at, body)
	if err != nil || req.URL.Host == "" {
		return nil, &mailroom.Error{Code: mailroom.CodeInvalid,
			Message: fmt.Sprintf("%q is not the URL of a server, such as http://127.0.0.1:8420", c.base), Cause: err}
	}
	for k, v := range q.header {
		req.Header[k] = v
	}
	if body != nil {
		req.Header.Set("Content-Type", kind)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req, nil
}

// unanswered returns the error of a call whose outcome is unknown.
func (c *Client) unanswered(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	return &mailroom.Error{Code: mailroom.CodeUnavailable, Message: "no answer from the server at " + c.base, Cause: err}
}

// refusal returns the error that resp describes.
func (c *Client) refusal(resp *http.Response) error {
	var p api.Problem
	ours := mediaType(resp) == api.ProblemType
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if ours && err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil || p.Code == "" {
		// The answer is not from a Mailroom server, or its body was cut off. Only the status is known.
		p = api.Problem{Code: api.CodeOf(resp.StatusCode)}
	}
	p.Status = resp.StatusCode
	e := p.Err(retryAfter(resp))
	if !ours && e.Code != mailroom.CodeUnavailable && e.Code != mailroom.CodeRateLimited { // a proxy may send these
		e.Message = fmt.Sprintf("%s answered %d %s", c.base, resp.StatusCode, http.StatusText(resp.StatusCode))
		e.Cause = ErrForeign
	}
	return e
}

// mediaType returns the media type of an answer, "" if it names none.
func mediaType(resp *http.Response) string {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

func retryAfter(resp *http.Response) time.Duration {
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0 // absent, or a date, which a Mailroom server never sends
	}
	const most = 24 * time.Hour // the largest value that a Mailroom server sends
	return time.Duration(min(seconds, int(most/time.Second))) * time.Second
}

// closeBody drains a short rest of the body, so that the connection is reused.
func closeBody(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // an error costs only the reuse of the connection
	_ = resp.Body.Close()                         // everything needed has been read
}
