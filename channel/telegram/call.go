package telegram

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
	maxAnswer = 32 << 20 // bytes of an answer
	maxQuote  = 200      // bytes of an answer that an error quotes
	maxWait   = 24 * time.Hour
)

// client calls the Bot API. The token is part of each address, so an address goes
// into no error, and what others say is looked through for it.
type client struct {
	base  *url.URL
	token string
	http  *http.Client
}

// CheckAPI reads the address of a Bot API.
func CheckAPI(s string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(s, "/"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("it is not an address such as " + DefaultAPI + ", without a name or password in it")
	}
	return u, nil
}

// newClient reads the options. What is wrong with them is fatal.
func newClient(o Options) (*client, error) {
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
	return &client{base: base, token: token, http: &http.Client{
		Transport: transport,
		// A redirect would take the token to where nobody said that it should go.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// refused is an answer of the platform that says no.
type refused struct {
	what     string
	code     int
	words    string
	after    time.Duration // to wait before the next call
	migrated string        // the chat has this id now
}

func (e *refused) Error() string {
	return fmt.Sprintf("%s: Telegram answered %d %s", e.what, e.code, e.words)
}

// lost is a call without an answer of the platform's.
type lost struct {
	what    string
	why     string // without the token
	written bool   // the platform may have got it
	after   time.Duration
	cause   error // of the context alone: others may tell the address
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

// response is how the platform answers.
type response struct {
	OK          bool            `json:"ok"`
	Result      json.RawMessage `json:"result"`
	Code        int             `json:"error_code"`
	Description string          `json:"description"`
	Parameters  struct {
		RetryAfter int64 `json:"retry_after"` // seconds
		Migrated   int64 `json:"migrate_to_chat_id"`
	} `json:"parameters"`
}

// call makes one call. what says in words what it is for. Its error is a *refused or
// a *lost.
func (c *client) call(ctx context.Context, what, method string, in map[string]any, out any, within time.Duration) error {
	body, err := json.Marshal(in)
	if err != nil {
		return &lost{what: what, why: err.Error()}
	}
	if in == nil {
		body = []byte("{}")
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	a, err := c.exchange(ctx, what, http.MethodPost, "/bot"+c.token+"/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer a.Body.Close() // what is wrong with the rest of an answer changes nothing
	raw, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer+1))
	if err != nil {
		return c.away(ctx, what, err, true)
	}
	var r response
	if len(raw) > maxAnswer || json.Unmarshal(raw, &r) != nil || !r.OK && r.Code == 0 {
		e := &lost{what: what, written: a.StatusCode < 400 || a.StatusCode >= 500, after: retryAfter(a.Header.Get("Retry-After"))}
		e.why = fmt.Sprintf("what answered is not the Bot API (%d %s): %s", a.StatusCode, http.StatusText(a.StatusCode), c.quote(raw))
		return e
	}
	if !r.OK {
		e := &refused{what: what, code: r.Code, words: c.quote([]byte(r.Description)), after: seconds(r.Parameters.RetryAfter)}
		if e.after == 0 {
			e.after = retryAfter(a.Header.Get("Retry-After"))
		}
		if r.Parameters.Migrated != 0 {
			e.migrated = strconv.FormatInt(r.Parameters.Migrated, 10)
		}
		return e
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(r.Result, out); err != nil {
		return &lost{what: what, why: "the answer is not what it should be: " + c.quote([]byte(err.Error())), written: true}
	}
	return nil
}

// exchange makes one request. Its error is a *lost.
func (c *client) exchange(ctx context.Context, what, method, path string, body io.Reader) (*http.Response, error) {
	var got, unwritten atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
		WroteRequest: func(w httptrace.WroteRequestInfo) {
			unwritten.Store(w.Err != nil && ctx.Err() == nil)
		},
	})
	req, err := http.NewRequestWithContext(ctx, method, c.base.String()+path, body)
	if err != nil {
		return nil, c.away(ctx, what, err, false)
	}
	req.Header.Set("User-Agent", "mailroom")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	a, err := c.http.Do(req)
	if err != nil {
		return nil, c.away(ctx, what, err, got.Load() && !unwritten.Load())
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
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		e.why = c.quote([]byte(err.Error()))
	}
	return e
}

// quote is the beginning of a text, as one line without the token. Its secret half is
// looked for, because the other is the bot's id, and the sign between may be escaped.
func (c *client) quote(raw []byte) string {
	_, secret, _ := strings.Cut(c.token, ":")
	text := strings.ReplaceAll(strings.ToValidUTF8(string(raw[:min(len(raw), 64<<10)]), "\uFFFD"), secret, "(token)")
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

func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), int64(maxWait/time.Second))) * time.Second
}

// retryAfter reads the header of that name, of who stands before the platform.
func retryAfter(header string) time.Duration {
	n, err := strconv.ParseInt(header, 10, 64)
	if err != nil {
		return 0
	}
	return seconds(n)
}
