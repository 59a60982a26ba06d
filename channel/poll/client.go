package poll

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/channel/httpcall"
	"mailroom/internal/setting"
)

const (
	callTimeout = 20 * time.Second // timeout of one call including its response
	maxPage     = 32 << 20         // bytes of a page
	maxResponse = 1 << 20          // bytes of any other response
)

// client calls the platform's HTTP API. It sends the token in the Authorization header only.
type client struct {
	workspace string
	token     string
	http      *httpcall.Client
	timeout   time.Duration
}

func newClient(o Options) (*client, error) {
	base, err := setting.ParseBaseURL(o.URL, "https://platform.example.org")
	if err != nil {
		return nil, err
	}
	return &client{workspace: o.Workspace, token: o.Token, timeout: o.Timeout, http: httpcall.New(httpcall.Options{
		Platform: "the platform", API: "the platform", Base: base, Secrets: []string{o.Token}, TLSTimeout: o.Timeout,
	})}, nil
}

// apiError is a response with a status other than 2xx.
type apiError struct {
	op     string
	status int
	body   string // body of the response, shortened
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
	answer, err := c.call(ctx, "read messages", http.MethodGet, "/workspaces/"+url.PathEscape(c.workspace)+"/activity?"+
		q.Encode(), nil, maxPage)
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
	answer, err := c.call(ctx, "send a reply to an agent", http.MethodPost, "/workspaces/"+url.PathEscape(workspace)+
		"/delegate",
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

// call makes one request. op names it in errors; path is escaped and below the base URL. Without a
// response, the error is a *httpcall.TransportError.
func (c *client) call(ctx context.Context, op, method, path string, body any, most int64) ([]byte, error) {
	r := httpcall.Request{Op: op, Method: method, URL: path, Timeout: c.timeout, MaxResponse: most, Header: http.Header{
		"Authorization": {"Bearer " + c.token}, "Accept": {"application/json"},
	}}
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		r.Body = raw
	}
	a, err := c.http.Do(ctx, r)
	good := a.Status >= 200 && a.Status < 300
	switch {
	case good && method != http.MethodGet:
		return a.Body, nil // the status alone confirms the request
	case err != nil && (good || a.Status == 0):
		return nil, err
	case good && a.TooLarge:
		return nil, fmt.Errorf("%s: %w (over %d bytes)", op, errTooLarge, most)
	case good:
		return a.Body, nil
	}
	return nil, &mailroom.Failure{
		Class: mailroom.ClassUnavailable, RetryAfter: a.RetryAfter(),
		Err: &apiError{op: op, status: a.Status, body: c.http.Redact(a.Body)},
	}
}
