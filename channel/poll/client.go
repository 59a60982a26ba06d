package poll

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/internal/setting"
)

const (
	callTimeout   = 20 * time.Second // one call including its response
	maxPage       = 32 << 20         // bytes of a page
	maxResponse   = 1 << 20          // bytes of any other response
	maxQuote      = 200              // bytes of a response in an error
	maxRetryAfter = 24 * time.Hour   // upper bound of Retry-After
)

// client calls the platform's HTTP API. It sends the token in the Authorization header only.
type client struct {
	base      *url.URL
	workspace string
	token     string
	http      *http.Client
	timeout   time.Duration
}

func newClient(o Options) (*client, error) {
	base, err := setting.ParseBaseURL(o.URL, "https://platform.example.org")
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() // the default transport of net/http
	transport.MaxIdleConnsPerHost = 16
	transport.TLSHandshakeTimeout = o.Timeout
	return &client{
		base: base, workspace: o.Workspace, token: o.Token, timeout: o.Timeout,
		http: &http.Client{
			Transport: transport,
			// Following a redirect would send messages, and perhaps the token, to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// apiError is a response with a status other than 2xx.
type apiError struct {
	op     string
	status int
	body   string // of the response, shortened
}

func (e *apiError) Error() string {
	text := fmt.Sprintf("%s: the platform answered %d %s", e.op, e.status, http.StatusText(e.status))
	if e.body != "" {
		text += ": " + e.body
	}
	return text
}

// permanent reports whether the same request cannot succeed later.
func (e *apiError) permanent() bool {
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return e.status >= 400 && e.status < 500
}

// maybeSent reports whether the platform may have processed the request: the status comes from a
// gateway.
func (e *apiError) maybeSent() bool {
	return e.status == http.StatusBadGateway || e.status == http.StatusGatewayTimeout
}

// errTooLarge reports a response that exceeds its limit.
var errTooLarge = errors.New("response too large")

// fetchRows fetches the rows after a cursor, or the recent ones if since is "".
func (c *client) fetchRows(ctx context.Context, since string, limit int) ([]json.RawMessage, error) {
	q := url.Values{"type": {"a2a_receive"}, "include": {"peer_info"}, "limit": {strconv.Itoa(limit)}}
	if since != "" {
		q.Set("since_id", since)
	} else {
		q.Set("since_secs", strconv.Itoa(int(initialWindow/time.Second)))
	}
	answer, err := c.call(ctx, "read messages", http.MethodGet, "/workspaces/"+url.PathEscape(c.workspace)+"/activity?"+q.Encode(), nil, maxPage)
	if err != nil {
		return nil, err
	}
	rows, err := parsePage(answer)
	if err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	return rows, nil
}

// ack acknowledges all rows up to seq. Older servers do not have this endpoint.
func (c *client) ack(ctx context.Context, seq int64) error {
	_, err := c.call(ctx, "acknowledge", http.MethodPost, "/workspaces/"+url.PathEscape(c.workspace)+"/activity/ack",
		map[string]int64{"acked_seq": seq}, maxResponse)
	if e, ok := errors.AsType[*apiError](err); ok && e.status == http.StatusNotFound {
		return nil
	}
	return err
}

// notify posts to the canvas of a workspace. It has no idempotency key, so a repeat posts twice.
func (c *client) notify(ctx context.Context, workspace, text string) error {
	_, err := c.call(ctx, "send a reply", http.MethodPost, "/workspaces/"+url.PathEscape(workspace)+"/notify",
		map[string]string{"message": text}, maxResponse)
	return err
}

// delegate submits a task to another agent. The platform accepts a key once.
func (c *client) delegate(ctx context.Context, workspace, peer, text, key string) (json.RawMessage, error) {
	answer, err := c.call(ctx, "send a reply to an agent", http.MethodPost, "/workspaces/"+url.PathEscape(workspace)+"/delegate",
		map[string]string{"target_id": peer, "task": text, "idempotency_key": key}, maxResponse)
	if err != nil || !json.Valid(answer) || !utf8.Valid(answer) {
		return nil, err
	}
	return answer, nil
}

// heartbeat is the body of a heartbeat.
type heartbeat struct {
	Workspace   string  `json:"workspace_id"`
	ErrorRate   float64 `json:"error_rate"`
	ActiveTasks int     `json:"active_tasks"`
	CurrentTask string  `json:"current_task"`
	Uptime      int64   `json:"uptime_seconds"`
}

func (c *client) heartbeat(ctx context.Context, b heartbeat) error {
	_, err := c.call(ctx, "send a heartbeat", http.MethodPost, "/registry/heartbeat", b, maxResponse)
	return err
}

// notSentError marks an error that occurred before anything was sent.
type notSentError struct{ error }

func (e *notSentError) Unwrap() error { return e.error }

// call makes one request. op names it in errors; path is escaped and below the base URL.
func (c *client) call(ctx context.Context, op, method, path string, body any, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		content = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base.String()+path, content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "mailroom")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.transportError(op, err)
	}
	defer res.Body.Close() // the response has been read
	answer, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	good := res.StatusCode >= 200 && res.StatusCode < 300
	switch {
	case good && method != http.MethodGet:
		return answer, nil // the status alone confirms the request
	case good && err != nil:
		return nil, c.transportError(op, err)
	case good && int64(len(answer)) > most:
		return nil, fmt.Errorf("%s: %w (over %d bytes)", op, errTooLarge, most)
	case good:
		return answer, nil
	}
	return nil, &mailroom.Failure{
		Class: mailroom.ClassUnavailable, RetryAfter: parseRetryAfter(res.Header.Get("Retry-After"), time.Now()),
		Err: &apiError{op: op, status: res.StatusCode, body: c.redact(answer)},
	}
}

// transportError returns the error of a call without a response. It contains neither the URL nor
// the token.
func (c *client) transportError(op string, err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return &notSentError{fmt.Errorf("%s: %w", op, err)}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: request timed out after %s: %w", op, c.timeout, err)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// redact returns the beginning of a response as one line without the token.
func (c *client) redact(answer []byte) string {
	text := strings.ReplaceAll(strings.ToValidUTF8(string(answer[:min(len(answer), 4*maxQuote)]), "\uFFFD"), c.token, "(token)")
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

// parseRetryAfter parses a Retry-After header: seconds or a date.
func parseRetryAfter(header string, now time.Time) time.Duration {
	d := time.Duration(0)
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		d = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}
