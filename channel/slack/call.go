package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"mailroom/channel"
	"mailroom/internal/setting"
)

const (
	maxResponse       = 32 << 20 // bytes of a response
	maxQuote          = 200      // bytes of a response quoted in an error
	maxRetryAfter     = 24 * time.Hour
	defaultRetryAfter = 10 * time.Second // for a rate limit without Retry-After
)

// client calls the Web API. Tokens are sent in headers only; text from outside is redacted all
// the same before it is quoted.
type client struct {
	base     *url.URL
	bot, app string // the tokens
	http     *http.Client
}

// newClient returns a client for the options. Its errors are fatal.
func newClient(o Options) (*client, error) {
	base, err := setting.ParseBaseURL(o.API, DefaultAPI)
	if err != nil {
		return nil, channel.Fatal(fmt.Errorf("api: %w", err))
	}
	c := &client{base: base}
	for _, t := range []struct {
		into  *string
		get   func() (string, error)
		check func(string) error
	}{{&c.bot, o.Token, checkToken}, {&c.app, o.AppToken, checkAppToken}} {
		if *t.into, err = t.get(); err == nil {
			err = t.check(*t.into)
		}
		if err != nil {
			return nil, channel.Fatal(err)
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() // guaranteed by net/http
	// A send over a connection that the server has just closed has an unknown outcome, so idle
	// connections are dropped early.
	transport.IdleConnTimeout = 20 * time.Second
	c.http = &http.Client{
		Transport: transport,
		// A redirect could carry the token to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// apiError is an error response of the platform.
type apiError struct {
	op         string
	code       string // Slack's error code
	detail     string // messages or the needed scope; "" if none
	retryAfter time.Duration
}

func (e *apiError) Error() string {
	if e.detail == "" {
		return fmt.Sprintf("%s: Slack answered %s", e.op, e.code)
	}
	return fmt.Sprintf("%s: Slack answered %s (%s)", e.op, e.code, e.detail)
}

// hasCode reports whether the error has one of the codes.
func (e *apiError) hasCode(codes ...string) bool { return slices.Contains(codes, e.code) }

// transportError is a call without a valid response from the platform.
type transportError struct {
	op         string
	reason     string // redacted
	maybeSent  bool   // the request may have reached the platform
	retryAfter time.Duration
	cause      error // only a context error: other errors can contain the URL
}

func (e *transportError) Error() string { return e.op + ": " + e.reason }

func (e *transportError) Unwrap() error { return e.cause }

// retryAfter returns the pause that the platform asked for in an error, or 0.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e.retryAfter
	}
	if e, ok := errors.AsType[*transportError](err); ok {
		return e.retryAfter
	}
	return 0
}

// request is one call of a Web API method.
type request struct {
	op          string // names the operation in errors
	method      string
	params      url.Values
	useAppToken bool // authenticate with the app's token instead of the bot's
	result      any  // receives the decoded response; nil discards it
}

// formValues builds form values from alternating names and values. Empty values are left out.
func formValues(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

// call makes one call and returns the token's scopes from the response header. The error is an
// *apiError or a *transportError.
func (c *client) call(ctx context.Context, x request) (scopes string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	token := c.bot
	if x.useAppToken {
		token = c.app
	}
	resp, err := c.doRequest(ctx, x.op, http.MethodPost, c.base.String()+"/"+x.method, token, x.params)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() // the body has been read; a close error changes nothing
	after := parseRetryAfter(resp.Header.Get("Retry-After"))
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	switch {
	case resp.StatusCode == http.StatusTooManyRequests: // whatever the body says
		return "", &apiError{op: x.op, code: "ratelimited", retryAfter: max(after, time.Second)}
	case err != nil:
		return "", c.newTransportError(ctx, x.op, err, true)
	}
	return resp.Header.Get("X-OAuth-Scopes"), c.decodeResponse(x, resp, raw, after)
}

// decodeResponse decodes the response of a call.
func (c *client) decodeResponse(x request, resp *http.Response, raw []byte, after time.Duration) error {
	var r struct {
		OK       bool   `json:"ok"`
		Error    string `json:"error"`
		Needed   string `json:"needed"` // scopes
		Metadata struct {
			Messages []string `json:"messages"`
		} `json:"response_metadata"`
	}
	if len(raw) > maxResponse || json.Unmarshal(raw, &r) != nil || !r.OK && r.Error == "" {
		return &transportError{
			op: x.op, maybeSent: resp.StatusCode < 300 || resp.StatusCode >= 500, retryAfter: after,
			reason: fmt.Sprintf("response is not from the Web API (%d %s): %s", resp.StatusCode, http.StatusText(resp.StatusCode), c.redact(raw)),
		}
	}
	if !r.OK {
		e := &apiError{op: x.op, code: c.redact([]byte(r.Error)), retryAfter: after, detail: c.redact([]byte(strings.Join(r.Metadata.Messages, "; ")))}
		if r.Needed != "" {
			e.detail = "needs " + c.redact([]byte(r.Needed))
		}
		if e.isAbout(subjectRateLimit) && after == 0 {
			e.retryAfter = defaultRetryAfter
		}
		return e
	}
	if x.result == nil {
		return nil
	}
	if err := json.Unmarshal(raw, x.result); err != nil {
		return &transportError{op: x.op, reason: "unexpected response: " + c.redact([]byte(err.Error())), maybeSent: true}
	}
	return nil
}

// doRequest makes one HTTP request with a token. Its error is a *transportError.
func (c *client) doRequest(ctx context.Context, op, method, address, token string, in url.Values) (*http.Response, error) {
	var got, failed atomic.Bool
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
		// A request cancelled while it was written may still have arrived.
		WroteRequest: func(w httptrace.WroteRequestInfo) { failed.Store(w.Err != nil && ctx.Err() == nil) },
	}), method, address, strings.NewReader(in.Encode()))
	if err != nil {
		return nil, c.newTransportError(ctx, op, err, false)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("User-Agent", "mailroom")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.newTransportError(ctx, op, err, got.Load() && !failed.Load())
	}
	return resp, nil
}

// newTransportError describes a request that got no response. maybeSent reports whether the
// platform may have received it.
func (c *client) newTransportError(ctx context.Context, op string, err error, maybeSent bool) *transportError {
	why := ""
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		why = "request timed out"
	case ctx.Err() != nil:
		why = "request cancelled"
	default:
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // the URL may contain a ticket
		}
		why = c.redact([]byte(err.Error()))
	}
	return &transportError{op: op, reason: why, maybeSent: maybeSent, cause: ctx.Err()}
}

// redact returns the beginning of raw as one line without the tokens.
func (c *client) redact(raw []byte) string {
	hide := strings.NewReplacer(c.bot, "(token)", c.app, "(token)")
	text := hide.Replace(strings.ToValidUTF8(string(raw[:min(len(raw), 64<<10)]), "\uFFFD"))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxQuote {
		return text
	}
	end := maxQuote
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// parseRetryAfter parses a Retry-After header in seconds.
func parseRetryAfter(header string) time.Duration {
	n, err := strconv.ParseInt(header, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, int64(maxRetryAfter/time.Second))) * time.Second
}
