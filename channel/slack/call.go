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
)

const (
	maxResponse       = 32 << 20 // bytes of an answer
	maxQuote          = 200      // bytes of an answer that an error quotes
	maxRetryAfter     = 24 * time.Hour
	defaultRetryAfter = 10 * time.Second // for a limit that does not say for how long it is
)

// client calls the Web API. Its tokens are in headers only; what others say is looked
// through for them all the same.
type client struct {
	base     *url.URL
	bot, app string // tokens
	http     *http.Client
}

// CheckAPI reads the address of a Web API.
func CheckAPI(s string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(s, "/"))
	switch {
	case err != nil, u.Host == "", u.Scheme != "http" && u.Scheme != "https", u.User != nil, u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("it is not an address such as " + DefaultAPI + ", without a name or password in it")
	}
	return u, nil
}

// newClient reads the options. What is wrong with them is fatal.
func newClient(o Options) (*client, error) {
	base, err := CheckAPI(o.API)
	if err != nil {
		return nil, channel.Fatal(fmt.Errorf("api: %w", err))
	}
	c := &client{base: base}
	for _, t := range []struct {
		into  *string
		get   func() (string, error)
		check func(string) error
	}{{&c.bot, o.Token, CheckToken}, {&c.app, o.AppToken, CheckAppToken}} {
		if *t.into, err = t.get(); err == nil {
			err = t.check(*t.into)
		}
		if err != nil {
			return nil, channel.Fatal(err)
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() // the standard library's own
	// A connection that the platform has closed meanwhile makes a send an unknown one.
	transport.IdleConnTimeout = 20 * time.Second
	c.http = &http.Client{
		Transport: transport,
		// A token goes where somebody said that it should, and nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// apiError is an answer of the platform that says no.
type apiError struct {
	op         string
	code       string // the platform's word for it
	detail     string // what else it says; "" if nothing
	retryAfter time.Duration
}

func (e *apiError) Error() string {
	if e.detail == "" {
		return fmt.Sprintf("%s: Slack answered %s", e.op, e.code)
	}
	return fmt.Sprintf("%s: Slack answered %s (%s)", e.op, e.code, e.detail)
}

// hasCode reports whether the platform's word is one of some.
func (e *apiError) hasCode(codes ...string) bool { return slices.Contains(codes, e.code) }

// transportError is a call without an answer of the platform's.
type transportError struct {
	op         string
	reason     string // without a token
	maybeSent  bool   // the platform may have got it
	retryAfter time.Duration
	cause      error // of the context alone
}

func (e *transportError) Error() string { return e.op + ": " + e.reason }

func (e *transportError) Unwrap() error { return e.cause }

// retryAfter is how long the platform asked to be left alone.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e.retryAfter
	}
	if e, ok := errors.AsType[*transportError](err); ok {
		return e.retryAfter
	}
	return 0
}

// request is one call of a method.
type request struct {
	op          string // it is for, in words
	method      string
	params      url.Values
	useAppToken bool // with the app's token
	result      any  // gets the answer; nil for nothing
}

// formValues are those of a form, by turns names and values; blank ones are left out.
func formValues(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

// request makes one call, and returns the scopes of the token as the platform has them.
// Its error is a *refused or a *lost.
func (c *client) call(ctx context.Context, x request) (scopes string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	token := c.bot
	if x.useAppToken {
		token = c.app
	}
	a, err := c.doRequest(ctx, x.op, http.MethodPost, c.base.String()+"/"+x.method, token, x.params)
	if err != nil {
		return "", err
	}
	defer a.Body.Close() // what is wrong with the rest of an answer changes nothing
	after := parseRetryAfter(a.Header.Get("Retry-After"))
	raw, err := io.ReadAll(io.LimitReader(a.Body, maxResponse+1))
	switch {
	case a.StatusCode == http.StatusTooManyRequests: // whatever else is there
		return "", &apiError{op: x.op, code: "ratelimited", retryAfter: max(after, time.Second)}
	case err != nil:
		return "", c.newTransportError(ctx, x.op, err, true)
	}
	return a.Header.Get("X-OAuth-Scopes"), c.decodeResponse(x, a, raw, after)
}

// decodeResponse reads an answer.
func (c *client) decodeResponse(x request, a *http.Response, raw []byte, after time.Duration) error {
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
			op: x.op, maybeSent: a.StatusCode < 300 || a.StatusCode >= 500, retryAfter: after,
			reason: fmt.Sprintf("what answered is not the Web API (%d %s): %s", a.StatusCode, http.StatusText(a.StatusCode), c.redact(raw)),
		}
	}
	if !r.OK {
		e := &apiError{op: x.op, code: c.redact([]byte(r.Error)), retryAfter: after, detail: c.redact([]byte(strings.Join(r.Metadata.Messages, "; ")))}
		if r.Needed != "" {
			e.detail = "it needs " + c.redact([]byte(r.Needed))
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
		return &transportError{op: x.op, reason: "the answer is not what it should be: " + c.redact([]byte(err.Error())), maybeSent: true}
	}
	return nil
}

// doRequest makes one request with a token. Its error is a *lost.
func (c *client) doRequest(ctx context.Context, what, method, address, token string, in url.Values) (*http.Response, error) {
	var got, failed atomic.Bool
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
		// Who is broken off in the middle may have written enough.
		WroteRequest: func(w httptrace.WroteRequestInfo) { failed.Store(w.Err != nil && ctx.Err() == nil) },
	}), method, address, strings.NewReader(in.Encode()))
	if err != nil {
		return nil, c.newTransportError(ctx, what, err, false)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("User-Agent", "mailroom")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	a, err := c.http.Do(req)
	if err != nil {
		return nil, c.newTransportError(ctx, what, err, got.Load() && !failed.Load())
	}
	return a, nil
}

// newTransportError is the error of what got no answer.
func (c *client) newTransportError(ctx context.Context, what string, err error, written bool) *transportError {
	why := ""
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		why = "no answer in time"
	case ctx.Err() != nil:
		why = "it was broken off"
	default:
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // an address may have a ticket in it
		}
		why = c.redact([]byte(err.Error()))
	}
	return &transportError{op: what, reason: why, maybeSent: written, cause: ctx.Err()}
}

// redact is the beginning of a text, as one line without a token.
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

// parseRetryAfter reads the header of that name, which is in seconds.
func parseRetryAfter(header string) time.Duration {
	n, err := strconv.ParseInt(header, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, int64(maxRetryAfter/time.Second))) * time.Second
}
