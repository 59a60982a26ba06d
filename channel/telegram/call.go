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
	"mailroom/internal/setting"
)

const (
	maxResponse   = 32 << 20 // bytes of a response
	maxQuote      = 200      // bytes of a response quoted in an error
	maxRetryAfter = 24 * time.Hour
)

// client calls the Bot API. The token is part of each URL, so no error contains a URL, and text
// from outside is redacted before it is quoted.
type client struct {
	base  *url.URL
	token string
	http  *http.Client
}

// newClient returns a client for the options. Its errors are fatal.
func newClient(o Options) (*client, error) {
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
	return &client{base: base, token: token, http: &http.Client{
		Transport: transport,
		// A redirect could carry the token to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// apiError is an error response of the platform.
type apiError struct {
	op          string
	code        int
	description string
	retryAfter  time.Duration // 0: none given
	migratedTo  string        // the chat's new id; "" if unchanged
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%s: Telegram answered %d %s", e.op, e.code, e.description)
}

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

// response is the envelope of every Bot API response.
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

// call calls a method and decodes its result into out. op names the operation in errors. The
// error is an *apiError or a *transportError.
func (c *client) call(ctx context.Context, op, method string, in map[string]any, out any, within time.Duration) error {
	body, err := json.Marshal(in)
	if err != nil {
		return &transportError{op: op, reason: err.Error()}
	}
	if in == nil {
		body = []byte("{}")
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	resp, err := c.doRequest(ctx, op, http.MethodPost, "/bot"+c.token+"/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close() // the body has been read; a close error changes nothing
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	if err != nil {
		return c.newTransportError(ctx, op, err, true)
	}
	var r response
	if len(raw) > maxResponse || json.Unmarshal(raw, &r) != nil || !r.OK && r.Code == 0 {
		e := &transportError{op: op, maybeSent: resp.StatusCode < 400 || resp.StatusCode >= 500, retryAfter: parseRetryAfter(resp.Header.Get("Retry-After"))}
		e.reason = fmt.Sprintf("response is not from the Bot API (%d %s): %s", resp.StatusCode, http.StatusText(resp.StatusCode), c.redact(raw))
		return e
	}
	if !r.OK {
		e := &apiError{op: op, code: r.Code, description: c.redact([]byte(r.Description)), retryAfter: seconds(r.Parameters.RetryAfter)}
		if e.retryAfter == 0 {
			e.retryAfter = parseRetryAfter(resp.Header.Get("Retry-After"))
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
		return &transportError{op: op, reason: "unexpected response: " + c.redact([]byte(err.Error())), maybeSent: true}
	}
	return nil
}

// doRequest makes one HTTP request. Its error is a *transportError.
func (c *client) doRequest(ctx context.Context, op, method, path string, body io.Reader) (*http.Response, error) {
	var got, unwritten atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
		WroteRequest: func(w httptrace.WroteRequestInfo) {
			unwritten.Store(w.Err != nil && ctx.Err() == nil)
		},
	})
	req, err := http.NewRequestWithContext(ctx, method, c.base.String()+path, body)
	if err != nil {
		return nil, c.newTransportError(ctx, op, err, false)
	}
	req.Header.Set("User-Agent", "mailroom")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.newTransportError(ctx, op, err, got.Load() && !unwritten.Load())
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
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		e.reason = c.redact([]byte(err.Error()))
	}
	return e
}

// redact returns the beginning of raw as one line without the token. It searches for the secret
// half of the token only: the other half is the public bot id, and the colon between them may
// be percent-encoded.
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

// parseRetryAfter parses a Retry-After header in seconds, which a proxy in front of the
// platform may set.
func parseRetryAfter(header string) time.Duration {
	n, err := strconv.ParseInt(header, 10, 64)
	if err != nil {
		return 0
	}
	return seconds(n)
}
