package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mailroom/channel"
	"mailroom/channel/httpcall"
	"mailroom/internal/setting"
)

// defaultRetryAfter is the pause of a rate limit without Retry-After.
const defaultRetryAfter = 10 * time.Second

// client calls the Web API.
type client struct {
	base     *url.URL
	bot, app string // the tokens
	http     *httpcall.Client
}

// newClient returns a client for the options. Its errors are fatal.
func newClient(o Options) (*client, error) {
	base, err := setting.ParseBaseURL(o.API, DefaultAPI)
	if err != nil {
		return nil, channel.Fatal(fmt.Errorf("api: %w", err))
	}
	c := &client{base: base}
	for _, t := range []struct {
		into  *string
		get   func() (string, error)
		check func(string) error
	}{{&c.bot, o.Token, checkToken}, {&c.app, o.AppToken, checkAppToken}} {
		if *t.into, err = t.get(); err == nil {
			err = t.check(*t.into)
		}
		if err != nil {
			return nil, channel.Fatal(err)
		}
	}
	c.http = httpcall.New(httpcall.Options{Platform: "Slack", API: "the Web API", Base: base,
		Secrets: []string{c.bot, c.app}})
	return c, nil
}

// request is one call of a Web API method.
type request struct {
	op          string // names the operation in errors
	method      string
	params      url.Values
	useAppToken bool // authenticate with the app's token instead of the bot's
	result      any  // receives the decoded response; nil discards it
}

// formValues builds form values from alternating names and values. Empty values are left out.
func formValues(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

// call makes one call and returns the token's scopes from the response header. The error is a
// *httpcall.Refusal, whose Code is Slack's, or a *httpcall.TransportError.
func (c *client) call(ctx context.Context, x request) (scopes string, err error) {
	token := c.bot
	if x.useAppToken {
		token = c.app
	}
	header := authorization(token)
	header.Set("Content-Type", "application/x-www-form-urlencoded")
	a, err := c.http.Do(ctx, httpcall.Request{Op: x.op, Method: http.MethodPost, URL: "/" + x.method, Header: header,
		Body: []byte(x.params.Encode()), Timeout: callTimeout})
	if a.Status == http.StatusTooManyRequests { // a rate limit, whatever the body says
		return "", &httpcall.Refusal{Op: x.op, Platform: "Slack", Code: "ratelimited",
			RetryAfter: max(a.RetryAfter(), time.Second)}
	}
	if err != nil {
		return "", err
	}
	return a.Header.Get("X-OAuth-Scopes"), c.decodeResponse(x, a)
}

func authorization(token string) http.Header {
	return http.Header{"Authorization": {"Bearer " + token}}
}

// decodeResponse decodes the response of a call.
func (c *client) decodeResponse(x request, a httpcall.Response) error {
	var r struct {
		OK       bool   `json:"ok"`
		Error    string `json:"error"`
		Needed   string `json:"needed"` // scopes
		Metadata struct {
			Messages []string `json:"messages"`
		} `json:"response_metadata"`
	}
	if a.TooLarge || json.Unmarshal(a.Body, &r) != nil || !r.OK && r.Error == "" {
		return c.http.NotAPI(x.op, a, a.Status < 300 || a.Status >= 500)
	}
	if !r.OK {
		e := c.http.Refuse(x.op, a)
		e.Status, e.Code, e.Text = 0, c.http.Redact([]byte(r.Error)),
			c.http.Redact([]byte(strings.Join(r.Metadata.Messages, "; ")))
		if r.Needed != "" {
			e.Text = "needs " + c.http.Redact([]byte(r.Needed))
		}
		if isAbout(e, subjectRateLimit) && e.RetryAfter == 0 {
			e.RetryAfter = defaultRetryAfter
		}
		return e
	}
	if x.result == nil {
		return nil
	}
	if err := json.Unmarshal(a.Body, x.result); err != nil {
		return &httpcall.TransportError{Op: x.op, Reason: "unexpected response: " + c.http.ErrorText(err), MaybeSent: true}
	}
	return nil
}
