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
	maxAnswer = 32 << 20 // bytes of an answer
	maxQuote  = 200      // bytes of an answer that an error quotes
	maxWait   = 24 * time.Hour
	someWait  = 10 * time.Second // for a limit that does not say for how long it is
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

// refused is an answer of the platform that says no.
type refused struct {
	what  string
	code  string // the platform's word for it
	more  string // what else it says; "" if nothing
	after time.Duration
}

func (e *refused) Error() string {
	if e.more == "" {
		return fmt.Sprintf("%s: Slack answered %s", e.what, e.code)
	}
	return fmt.Sprintf("%s: Slack answered %s (%s)", e.what, e.code, e.more)
}

// is reports whether the platform's word is one of some.
func (e *refused) is(codes ...string) bool { return slices.Contains(codes, e.code) }

// lost is a call without an answer of the platform's.
type lost struct {
	what    string
	why     string // without a token
	written bool   // the platform may have got it
	after   time.Duration
	cause   error // of the context alone
}

func (e *lost) Error() string { return e.what + ": " + e.why }

func (e *lost) Unwrap() error { return e.cause }

// afterOf is how long the platform asked to be left alone.
func afterOf(err error) time.Duration {
	if e, ok := errors.AsType[*refused](err); ok {
		return e.after
	}
	if e, ok := errors.AsType[*lost](err); ok {
		return e.after
	}
	return 0
}

// call is one call of a method.
type call struct {
	what   string // it is for, in words
	method string
	in     url.Values
	app    bool // with the app's token
	out    any  // gets the answer; nil for nothing
}

// values are those of a form, by turns names and values; blank ones are left out.
func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

// call makes one call, and returns the scopes of the token as the platform has them.
// Its error is a *refused or a *lost.
func (c *client) call(ctx context.Context, x call) (scopes string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	token := c.bot
	if x.app {
		token = c.app
	}
	a, err := c.exchange(ctx, x.what, http.MethodPost, c.base.String()+"/"+x.method, token, x.in)
	if err != nil {
		return "", err
	}
	defer a.Body.Close() // what is wrong with the rest of an answer changes nothing
	after := retryAfter(a.Header.Get("Retry-After"))
	raw, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer+1))
	switch {
	case a.StatusCode == http.StatusTooManyRequests: // whatever else is there
		return "", &refused{what: x.what, code: "ratelimited", after: max(after, time.Second)}
	case err != nil:
		return "", c.away(ctx, x.what, err, true)
	}
	return a.Header.Get("X-OAuth-Scopes"), c.read(x, a, raw, after)
}

// read reads an answer.
func (c *client) read(x call, a *http.Response, raw []byte, after time.Duration) error {
	var r struct {
		OK       bool   `json:"ok"`
		Error    string `json:"error"`
		Needed   string `json:"needed"` // scopes
		Metadata struct {
			Messages []string `json:"messages"`
		} `json:"response_metadata"`
	}
	if len(raw) > maxAnswer || json.Unmarshal(raw, &r) != nil || !r.OK && r.Error == "" {
		return &lost{
			what: x.what, written: a.StatusCode < 300 || a.StatusCode >= 500, after: after,
			why: fmt.Sprintf("what answered is not the Web API (%d %s): %s", a.StatusCode, http.StatusText(a.StatusCode), c.quote(raw)),
		}
	}
	if !r.OK {
		e := &refused{what: x.what, code: c.quote([]byte(r.Error)), after: after, more: c.quote([]byte(strings.Join(r.Metadata.Messages, "; ")))}
		if r.Needed != "" {
			e.more = "it needs " + c.quote([]byte(r.Needed))
		}
		if e.of(ofPace) && after == 0 {
			e.after = someWait
		}
		return e
	}
	if x.out == nil {
		return nil
	}
	if err := json.Unmarshal(raw, x.out); err != nil {
		return &lost{what: x.what, why: "the answer is not what it should be: " + c.quote([]byte(err.Error())), written: true}
	}
	return nil
}

// exchange makes one request with a token. Its error is a *lost.
func (c *client) exchange(ctx context.Context, what, method, address, token string, in url.Values) (*http.Response, error) {
	var got, failed atomic.Bool
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
		// Who is broken off in the middle may have written enough.
		WroteRequest: func(w httptrace.WroteRequestInfo) { failed.Store(w.Err != nil && ctx.Err() == nil) },
	}), method, address, strings.NewReader(in.Encode()))
	if err != nil {
		return nil, c.away(ctx, what, err, false)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("User-Agent", "mailroom")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	a, err := c.http.Do(req)
	if err != nil {
		return nil, c.away(ctx, what, err, got.Load() && !failed.Load())
	}
	return a, nil
}

// away is the error of what got no answer.
func (c *client) away(ctx context.Context, what string, err error, written bool) *lost {
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
		why = c.quote([]byte(err.Error()))
	}
	return &lost{what: what, why: why, written: written, cause: ctx.Err()}
}

// quote is the beginning of a text, as one line without a token.
func (c *client) quote(raw []byte) string {
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

// retryAfter reads the header of that name, which is in seconds.
func retryAfter(header string) time.Duration {
	n, err := strconv.ParseInt(header, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, int64(maxWait/time.Second))) * time.Second
}
