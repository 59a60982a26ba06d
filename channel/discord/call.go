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
	maxAnswer = 32 << 20 // bytes of an answer
	maxQuote  = 200      // bytes of an answer that an error quotes
	maxWait   = 24 * time.Hour
)

// userAgent has the form that Discord wants, DiscordBot ($url, $versionNumber)
// (https://docs.discord.com/developers/reference#user-agent). Without an address of its
// own the program names one that is reserved for what has none (RFC 2606), rather than
// that of another project.
func userAgent(about string) string {
	if about == "" {
		about = noAddress
	}
	version := "0.0.0"
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		version = strings.TrimPrefix(info.Main.Version, "v")
	}
	return "DiscordBot (" + about + ", " + version + ")"
}

const noAddress = "https://mailroom.invalid"

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
	limits *limits
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
func newClient(o Options, l *limits) (*client, error) {
	o.fill()
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

// refused is an answer of the platform that says no.
type refused struct {
	what   string
	status int
	code   int // the platform's own; 0: it gave none
	words  string
	after  time.Duration // to wait before the next call
	global bool          // the wait is for all calls
}

func (e *refused) Error() string {
	code := ""
	if e.code != 0 {
		code = fmt.Sprintf(", %d", e.code)
	}
	return fmt.Sprintf("%s: Discord answered %d %s%s", e.what, e.status, e.words, code)
}

// lost is a call without an answer of the platform's.
type lost struct {
	what    string
	why     string // without the token
	written bool   // the platform may have got it
	after   time.Duration
	global  bool
	cause   error // of the context alone: others may tell the address
}

func (e *lost) Error() string { return e.what + ": " + e.why }

func (e *lost) Unwrap() error { return e.cause }

// asked is how long somebody asked to be left alone, and whether with all calls.
func asked(err error) (after time.Duration, global bool) {
	if e, ok := errors.AsType[*refused](err); ok {
		return e.after, e.global
	}
	if e, ok := errors.AsType[*lost](err); ok {
		return e.after, e.global
	}
	if e, ok := errors.AsType[*startLimit](err); ok {
		return e.after, false
	}
	return 0, false
}

func afterOf(err error) time.Duration {
	after, _ := asked(err)
	return after
}

// call is one call.
type call struct {
	what   string // it is for, in words
	method string // "" is GET
	path   string // with the query
	in     any    // sent as JSON, unless it is nil
	out    any    // the answer is read into it, unless it is nil
	bare   bool   // the address says who calls: no token, and no limit
}

// problem is how the platform says no.
type problem struct {
	Code    int     `json:"code"`
	Message string  `json:"message"`
	After   float64 `json:"retry_after"` // seconds
	Global  bool    `json:"global"`
	// Errors are of the fields that are wrong, nested like these.
	Errors json.RawMessage `json:"errors"`
}

// call makes one call, unless the limit of its route is used up. Its error is a
// *refused or a *lost.
func (c *client) call(ctx context.Context, k call) error {
	if k.method == "" {
		k.method = http.MethodGet
	}
	route := routeOf(k.method, k.path)
	if wait, global := c.limits.left(route, time.Now()); wait > 0 && !k.bare {
		return &refused{what: k.what, status: http.StatusTooManyRequests, words: "before it was asked: its limit is used up", after: wait, global: global}
	}
	var body io.Reader
	if k.in != nil {
		raw, err := json.Marshal(k.in)
		if err != nil {
			return &lost{what: k.what, why: err.Error()}
		}
		body = bytes.NewReader(raw)
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	a, err := c.exchange(ctx, k, body)
	if err != nil {
		return err
	}
	defer a.Body.Close() // what is wrong with the rest of an answer changes nothing
	raw, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer+1))
	if err != nil {
		return c.away(ctx, k.what, err, true)
	}
	if !k.bare {
		c.limits.take(route, a.Header, time.Now())
	}
	if a.StatusCode >= 300 {
		return c.no(k, a, raw)
	}
	if k.out == nil {
		return nil
	}
	if err := json.Unmarshal(raw, k.out); err != nil || len(raw) > maxAnswer {
		return &lost{what: k.what, why: "the answer is not what it should be: " + c.quote(raw), written: true}
	}
	return nil
}

// no reads an answer that says no.
func (c *client) no(k call, a *http.Response, raw []byte) error {
	after := seconds(number(a.Header.Get("Retry-After")))
	var p problem
	if err := json.Unmarshal(raw, &p); err != nil || p.Message == "" && p.Code == 0 {
		e := &lost{what: k.what, written: a.StatusCode < 400 || a.StatusCode >= 500, after: after}
		// Who stands before the platform speaks of the address of this machine.
		e.global = a.StatusCode == http.StatusTooManyRequests
		e.why = fmt.Sprintf("what answered is not the API (%d %s): %s", a.StatusCode, http.StatusText(a.StatusCode), c.quote(raw))
		return e
	}
	e := &refused{what: k.what, status: a.StatusCode, code: p.Code, words: c.quote([]byte(strings.TrimPrefix(p.Message, strconv.Itoa(a.StatusCode)+": "))), after: max(after, seconds(p.After))}
	e.global = a.StatusCode == http.StatusTooManyRequests && (p.Global || a.Header.Get("X-RateLimit-Global") == "true")
	if len(p.Errors) > 0 {
		e.words += " " + c.quote(p.Errors)
	}
	if a.StatusCode == http.StatusTooManyRequests && !k.bare {
		c.limits.refused(routeOf(k.method, k.path), e, time.Now())
	}
	return e
}

// exchange makes one request. Its error is a *lost.
func (c *client) exchange(ctx context.Context, k call, body io.Reader) (*http.Response, error) {
	var got, unwritten atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
		WroteRequest: func(w httptrace.WroteRequestInfo) {
			unwritten.Store(w.Err != nil && ctx.Err() == nil)
		},
	})
	req, err := http.NewRequestWithContext(ctx, k.method, c.base.String()+k.path, body)
	if err != nil {
		return nil, c.away(ctx, k.what, err, false)
	}
	req.Header.Set("User-Agent", c.agent)
	if !k.bare {
		req.Header.Set("Authorization", "Bot "+c.token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	a, err := c.http.Do(req)
	if err != nil {
		return nil, c.away(ctx, k.what, err, got.Load() && !unwritten.Load())
	}
	return a, nil
}

// away is the error of a call that got no answer.
func (c *client) away(ctx context.Context, what string, err error, written bool) *lost {
	e := &lost{what: what, written: written, cause: ctx.Err()}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e.why = "no answer in time"
	case ctx.Err() != nil:
		e.why = "it was broken off"
	default:
		e.why = c.plain(err)
	}
	return e
}

// plain is an error in words, without the address that was called: one of an
// interaction has its token in it.
func (c *client) plain(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return c.quote([]byte(err.Error()))
}

// quote is the beginning of a text, as one line without the token.
func (c *client) quote(raw []byte) string {
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

// number is what a header says, 0 if that is none.
func number(header string) float64 {
	n, err := strconv.ParseFloat(header, 64)
	if err != nil {
		return 0
	}
	return n
}

func seconds(n float64) time.Duration {
	return time.Duration(min(max(n, 0), maxWait.Seconds()) * float64(time.Second))
}
