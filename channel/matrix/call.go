package matrix

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mailroom/channel"
	"mailroom/channel/httpcall"
	"mailroom/internal/setting"
)

const (
	maxResponse          = 64 << 20  // bytes of a response
	maxAnonymousResponse = 256 << 10 // bytes of a response without a token
)

// client calls the Client-Server API of a homeserver.
type client struct {
	token string // access token; "" for calls without authentication
	http  *httpcall.Client
}

// newClient returns a client for the options. Its errors are fatal.
func newClient(o Options) (*client, error) {
	base, err := setting.ParseBaseURL(o.Homeserver, exampleHomeserver)
	if err != nil {
		return nil, channel.Fatal(fmt.Errorf("homeserver: %w", err))
	}
	token, err := o.Token()
	if err != nil {
		return nil, channel.Fatal(err)
	}
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, channel.Fatal(errors.New("not a Matrix access token: use the single word that a login returns"))
	}
	return &client{token: token, http: newExchange(base, token, maxResponse)}, nil
}

// newAnonymousClient returns a client without a token.
func newAnonymousClient(base *url.URL) *client {
	return &client{http: newExchange(base, "", maxAnonymousResponse)}
}

func newExchange(base *url.URL, token string, most int64) *httpcall.Client {
	return httpcall.New(httpcall.Options{Platform: "the homeserver", API: "a homeserver", Base: base,
		Secrets: []string{token}, MaxResponse: most})
}

// isRoomRefusal reports whether err refuses one room or event only: a 4xx response that concerns
// neither the account nor a rate limit
// (https://spec.matrix.org/latest/client-server-api/#standard-error-response). An unknown errcode
// counts as such a refusal.
func isRoomRefusal(err error) bool {
	e, ok := errors.AsType[*httpcall.Refusal](err)
	if !ok || e.Status < 400 || e.Status >= 500 || isFatal(err) {
		return false
	}
	return e.Status != http.StatusUnauthorized && e.Status != http.StatusTooManyRequests && e.Code != "M_USER_SUSPENDED" &&
		e.Code != "M_LIMIT_EXCEEDED"
}

// request is one API call. op names the operation in errors.
type request struct {
	op, method string
	path       []string // below /_matrix/client/v3
	query      url.Values
	body       any // encoded as JSON; nil for an empty body
}

// escapePath appends escaped segments to a path.
func escapePath(prefix string, segments ...string) string {
	for _, w := range segments {
		prefix += "/" + url.PathEscape(w)
	}
	return prefix
}

// call makes one API call and decodes the response into out. Its error is a *httpcall.Refusal or a
// *httpcall.TransportError.
func (c *client) call(ctx context.Context, r request, out any, timeout time.Duration) error {
	var body []byte
	if r.body != nil {
		var raw bytes.Buffer
		e := json.NewEncoder(&raw)
		e.SetEscapeHTML(false) // escaping lengthens the text beyond what the homeserver counts
		if err := e.Encode(r.body); err != nil {
			return &httpcall.TransportError{Op: r.op, Reason: err.Error()}
		}
		body = raw.Bytes()
	}
	to := escapePath("/_matrix/client/v3", r.path...)
	if len(r.query) > 0 {
		to += "?" + r.query.Encode()
	}
	a, err := c.http.Do(ctx, httpcall.Request{Op: r.op, Method: r.method, URL: to, Header: c.authorization(), Body: body,
		Timeout: timeout})
	if err != nil {
		return err
	}
	if a.Status/100 != 2 {
		return c.decodeError(r.op, a)
	}
	if out == nil {
		out = new(map[string]json.RawMessage)
	}
	if a.TooLarge || json.Unmarshal(a.Body, out) != nil {
		return &httpcall.TransportError{Op: r.op, Reason: "unexpected response: " + c.http.Redact(a.Body), MaybeSent: true}
	}
	return nil
}

// authorization returns the header that authenticates a call.
func (c *client) authorization() http.Header {
	if c.token == "" {
		return nil
	}
	return http.Header{"Authorization": {"Bearer " + c.token}}
}

// softLogout is the Detail of a refusal of an access token that expired while its session exists.
const softLogout = "soft_logout"

// decodeError decodes a response whose status is not 2xx. A rate limit applies to the whole account.
func (c *client) decodeError(op string, a httpcall.Response) error {
	var body struct {
		Name    string  `json:"errcode"`
		Message string  `json:"error"`
		After   float64 `json:"retry_after_ms"`
		Soft    bool    `json:"soft_logout"`
	}
	if a.TooLarge || json.Unmarshal(a.Body, &body) != nil || body.Name == "" {
		return c.http.NotAPI(op, a, a.Status < 300 || a.Status >= 500)
	}
	e := c.http.Refuse(op, a)
	e.Code, e.Text = c.http.Redact([]byte(body.Name)), c.http.Redact([]byte(body.Message))
	e.RetryAfter = max(e.RetryAfter, httpcall.Seconds(body.After/1000))
	e.Everywhere = a.Status == http.StatusTooManyRequests
	if body.Soft {
		e.Detail = softLogout
	}
	return e
}
