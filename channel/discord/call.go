package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
	"mailroom/internal/setting"
	"mailroom/internal/version"
)

// userAgent has the form that Discord requires, DiscordBot ($url, $versionNumber)
// (https://docs.discord.com/developers/reference#user-agent). Without an About URL it names a
// host under the reserved domain .invalid (RFC 2606).
func userAgent(about string) string {
	if about == "" {
		about = noInfoURL
	}
	return "DiscordBot (" + about + ", " + version.Number + ")"
}

const noInfoURL = "https://mailroom.invalid"

// checkAbout rejects a string that cannot be the URL in a User-Agent.
func checkAbout(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || len(s) > 200 ||
		strings.ContainsAny(s, "(), \"") {
		return errors.New("not a URL such as https://example.org/our-bot, without parentheses, commas and spaces")
	}
	return nil
}

// client calls the HTTP API.
type client struct {
	agent  string // User-Agent
	base   *url.URL
	token  string
	http   *httpcall.Client
	limits *rateLimits
}

// newClient returns a client for the options. Its errors are fatal.
func newClient(o Options, l *rateLimits) (*client, error) {
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
	agent := userAgent(o.About)
	secrets := slices.DeleteFunc(strings.Split(token, "."), func(part string) bool { return len(part) <= 10 })
	return &client{agent: agent, base: base, token: token, limits: l, http: httpcall.New(httpcall.Options{
		Platform: "Discord", API: "the Discord API", Base: base, UserAgent: agent, Secrets: secrets,
	})}, nil
}

// request is one call of the HTTP API.
type request struct {
	op     string       // names the operation in errors
	method string       // HTTP method; "" is GET
	path   string       // path with the query
	body   any          // sent as JSON; nil sends no body
	result any          // receives the decoded response; nil discards it
	file   *chat.Upload // file to upload, or nil; with a file the body is a part of a form
	noAuth bool         // the URL authenticates the call: no token, and no rate limit
}

// errorBody is the body of an error response.
type errorBody struct {
	Code    int     `json:"code"`
	Message string  `json:"message"`
	After   float64 `json:"retry_after"` // seconds
	Global  bool    `json:"global"`
	// Errors holds the errors of single fields, nested by field name.
	Errors json.RawMessage `json:"errors"`
}

// call makes one call, unless the rate limit of its route is used up. The error is a
// *httpcall.Refusal or a *httpcall.TransportError.
func (c *client) call(ctx context.Context, r request) error {
	if r.method == "" {
		r.method = http.MethodGet
	}
	route := routeOf(r.method, r.path)
	if wait, global := c.limits.wait(route, time.Now()); wait > 0 && !r.noAuth {
		return &httpcall.Refusal{Op: r.op, Platform: "Discord", Status: http.StatusTooManyRequests,
			Text: "(not sent: the rate limit is used up)", RetryAfter: wait, Everywhere: global}
	}
	var body []byte
	if r.body != nil {
		raw, err := json.Marshal(r.body)
		if err != nil {
			return &httpcall.TransportError{Op: r.op, Reason: err.Error()}
		}
		body = raw
	}
	header := http.Header{}
	if r.file != nil { // API reference, "Uploading Files"
		kind, form, err := httpcall.Form(map[string]string{"payload_json": string(body)},
			httpcall.FormFile{Field: "files[0]", Name: r.file.Name, Type: chat.UploadType, Content: r.file.Content})
		if err != nil {
			return &httpcall.TransportError{Op: r.op, Reason: err.Error()}
		}
		body = form
		header.Set("Content-Type", kind)
	}
	if !r.noAuth {
		header.Set("Authorization", "Bot "+c.token)
	}
	a, err := c.http.Do(ctx, httpcall.Request{Op: r.op, Method: r.method, URL: r.path, Header: header, Body: body,
		Timeout: callTimeout})
	if err != nil {
		return err
	}
	if !r.noAuth {
		c.limits.update(route, a.Header, time.Now())
	}
	if a.Status >= 300 {
		return c.decodeError(r, a)
	}
	if r.result == nil {
		return nil
	}
	if a.TooLarge || json.Unmarshal(a.Body, r.result) != nil {
		return &httpcall.TransportError{Op: r.op, Reason: "unexpected response: " + c.http.Redact(a.Body), MaybeSent: true}
	}
	return nil
}

// decodeError decodes an error response.
func (c *client) decodeError(r request, a httpcall.Response) error {
	limited := a.Status == http.StatusTooManyRequests
	var p errorBody
	if a.TooLarge || json.Unmarshal(a.Body, &p) != nil || p.Message == "" && p.Code == 0 {
		e := c.http.NotAPI(r.op, a, a.Status < 400 || a.Status >= 500)
		e.Everywhere = limited // a proxy in front of Discord limits the IP address, so all calls
		return e
	}
	e := c.http.Refuse(r.op, a)
	e.Text = c.http.Redact([]byte(strings.TrimPrefix(p.Message, strconv.Itoa(a.Status)+": ")))
	if p.Code != 0 {
		e.Code = strconv.Itoa(p.Code)
	}
	e.RetryAfter = max(e.RetryAfter, httpcall.Seconds(p.After))
	e.Everywhere = limited && (p.Global || a.Header.Get("X-RateLimit-Global") == "true")
	if len(p.Errors) > 0 {
		e.Text += " " + c.http.Redact(p.Errors)
	}
	if limited && !r.noAuth {
		c.limits.onRejected(routeOf(r.method, r.path), e, time.Now())
	}
	return e
}
