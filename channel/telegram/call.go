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
	maxResponse   = 32 << 20 // bytes of an answer
	maxQuote      = 200      // bytes of an answer that an error quotes
	maxRetryAfter = 24 * time.Hour
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
	return &client{base: base, token: token, http: &http.Client{
		Transport: transport,
		// A redirect would take the token to where nobody said that it should go.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// apiError is an answer of the platform that says no.
type apiError struct {
	op          string
	code        int
	description string
	retryAfter  time.Duration // to wait before the next call
	migratedTo  string        // the chat has this id now
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%s: Telegram answered %d %s", e.op, e.code, e.description)
}

// transportError is a call without an answer of the platform's.
type transportError struct {
	op         string
	reason     string // without the token
	maybeSent  bool   // the platform may have got it
	retryAfter time.Duration
	cause      error // of the context alone: others may tell the address
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
		return &transportError{op: what, reason: err.Error()}
	}
	if in == nil {
		body = []byte("{}")
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	a, err := c.doRequest(ctx, what, http.MethodPost, "/bot"+c.token+"/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer a.Body.Close() // what is wrong with the rest of an answer changes nothing
	raw, err := io.ReadAll(io.LimitReader(a.Body, maxResponse+1))
	if err != nil {
		return c.newTransportError(ctx, what, err, true)
	}
	var r response
	if len(raw) > maxResponse || json.Unmarshal(raw, &r) != nil || !r.OK && r.Code == 0 {
		e := &transportError{op: what, maybeSent: a.StatusCode < 400 || a.StatusCode >= 500, retryAfter: parseRetryAfter(a.Header.Get("Retry-After"))}
		e.reason = fmt.Sprintf("what answered is not the Bot API (%d %s): %s", a.StatusCode, http.StatusText(a.StatusCode), c.redact(raw))
		return e
	}
	if !r.OK {
		e := &apiError{op: what, code: r.Code, description: c.redact([]byte(r.Description)), retryAfter: seconds(r.Parameters.RetryAfter)}
		if e.retryAfter == 0 {
			e.retryAfter = parseRetryAfter(a.Header.Get("Retry-After"))
		}
		if r.Parameters.Migrated != 0 {
			e.migratedTo = strconv.FormatInt(r.Parameters.Migrated, 10)
		}
		return e
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(r.Result, out); err != nil {
		return &transportError{op: what, reason: "the answer is not what it should be: " + c.redact([]byte(err.Error())), maybeSent: true}
	}
	return nil
}

// doRequest makes one request. Its error is a *lost.
func (c *client) doRequest(ctx context.Context, what, method, path string, body io.Reader) (*http.Response, error) {
	var got, unwritten atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
		WroteRequest: func(w httptrace.WroteRequestInfo) {
			unwritten.Store(w.Err != nil && ctx.Err() == nil)
		},
	})
	req, err := http.NewRequestWithContext(ctx, method, c.base.String()+path, body)
	if err != nil {
		return nil, c.newTransportError(ctx, what, err, false)
	}
	req.Header.Set("User-Agent", "mailroom")
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

// redact is the beginning of a text, as one line without the token. Its secret half is
// looked for, because the other is the bot's id, and the sign between may be escaped.
func (c *client) redact(raw []byte) string {
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
	return time.Duration(min(max(n, 0), int64(maxRetryAfter/time.Second))) * time.Second
}

// parseRetryAfter reads the header of that name, of who stands before the platform.
func parseRetryAfter(header string) time.Duration {
	n, err := strconv.ParseInt(header, 10, 64)
	if err != nil {
		return 0
	}
	return seconds(n)
}
