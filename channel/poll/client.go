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
)

const (
	callTimeout   = 20 * time.Second // of one call, its answer included
	maxPage       = 32 << 20         // bytes of a page
	maxResponse   = 1 << 20          // bytes of any other answer
	maxQuote      = 200              // bytes of an answer that an error quotes
	maxRetryAfter = 24 * time.Hour   // of a Retry-After
)

// client calls the platform's HTTP API. The token goes into the header of requests
// and nowhere else.
type client struct {
	base      *url.URL
	workspace string
	token     string
	http      *http.Client
	timeout   time.Duration
}

func newClient(o Options) (*client, error) {
	base, err := CheckURL(o.URL)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() // the standard library's own
	transport.MaxIdleConnsPerHost = 16
	transport.TLSHandshakeTimeout = o.Timeout
	return &client{
		base: base, workspace: o.Workspace, token: o.Token, timeout: o.Timeout,
		http: &http.Client{
			Transport: transport,
			// A redirect would take the messages, and perhaps the token, to
			// where nobody said that they should go.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// CheckURL reads the address of a platform.
func CheckURL(s string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(s, "/"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("it is not an address such as https://platform.example.org, without a name or password in it")
	}
	return u, nil
}

// apiError is an answer of the platform that is not the one we want.
type apiError struct {
	op     string
	status int
	body   string // of the answer
}

func (e *apiError) Error() string {
	text := fmt.Sprintf("%s: the platform answered %d %s", e.op, e.status, http.StatusText(e.status))
	if e.body != "" {
		text += ": " + e.body
	}
	return text
}

// permanent reports whether the same request will never be taken.
func (e *apiError) permanent() bool {
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return e.status >= 400 && e.status < 500
}

// maybeSent reports whether the request may have been taken all the same: whoever
// answered was between us and the platform.
func (e *apiError) maybeSent() bool {
	return e.status == http.StatusBadGateway || e.status == http.StatusGatewayTimeout
}

// errTooLarge says that an answer has more bytes than are taken.
var errTooLarge = errors.New("the answer is too large")

// fetchRows asks for the rows after a cursor, or with "" for those of the last time.
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

// ack says that all rows up to seq are handled. Old servers do not know it.
func (c *client) ack(ctx context.Context, seq int64) error {
	_, err := c.call(ctx, "acknowledge", http.MethodPost, "/workspaces/"+url.PathEscape(c.workspace)+"/activity/ack",
		map[string]int64{"acked_seq": seq}, maxResponse)
	if e, ok := errors.AsType[*apiError](err); ok && e.status == http.StatusNotFound {
		return nil
	}
	return err
}

// notify writes on the canvas of a workspace. It has no key: what is sent twice is
// there twice.
func (c *client) notify(ctx context.Context, workspace, text string) error {
	_, err := c.call(ctx, "send a reply", http.MethodPost, "/workspaces/"+url.PathEscape(workspace)+"/notify",
		map[string]string{"message": text}, maxResponse)
	return err
}

// delegate hands a task to another agent, once for a key.
func (c *client) delegate(ctx context.Context, workspace, peer, text, key string) (json.RawMessage, error) {
	answer, err := c.call(ctx, "send a reply to an agent", http.MethodPost, "/workspaces/"+url.PathEscape(workspace)+"/delegate",
		map[string]string{"target_id": peer, "task": text, "idempotency_key": key}, maxResponse)
	if err != nil || !json.Valid(answer) || !utf8.Valid(answer) {
		return nil, err
	}
	return answer, nil
}

// heartbeat is a heartbeat.
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

// notSentError marks an error before the platform can have got anything.
type notSentError struct{ error }

func (e *notSentError) Unwrap() error { return e.error }

// call makes one request. path is below the base, escaped.
func (c *client) call(ctx context.Context, what, method, path string, body any, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		content = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base.String()+path, content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "mailroom")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.transportError(what, err)
	}
	defer res.Body.Close() // what is wrong with the rest of an answer changes nothing
	answer, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	good := res.StatusCode >= 200 && res.StatusCode < 300
	switch {
	case good && method != http.MethodGet:
		return answer, nil // it is taken, whatever it says of it
	case good && err != nil:
		return nil, c.transportError(what, err)
	case good && int64(len(answer)) > most:
		return nil, fmt.Errorf("%s: %w (over %d bytes)", what, errTooLarge, most)
	case good:
		return answer, nil
	}
	return nil, &mailroom.Failure{
		Class: mailroom.ClassUnavailable, RetryAfter: parseRetryAfter(res.Header.Get("Retry-After"), time.Now()),
		Err: &apiError{op: what, status: res.StatusCode, body: c.redact(answer)},
	}
}

// transportError is the error of a call that got no answer. What it says holds no query, and
// the token was never part of it.
func (c *client) transportError(what string, err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return &notSentError{fmt.Errorf("%s: %w", what, err)}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: no answer within %s: %w", what, c.timeout, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// redact is the beginning of an answer, as one line without the token.
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

// parseRetryAfter reads the header of that name: seconds, or a date.
func parseRetryAfter(header string, now time.Time) time.Duration {
	d := time.Duration(0)
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		d = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}
