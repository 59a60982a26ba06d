package telegram

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mailroom/channel"
	"mailroom/channel/httpcall"
	"mailroom/internal/setting"
)

// client calls the Bot API. The token is part of each URL.
type client struct {
	token string
	http  *httpcall.Client
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
	// The first half of a token is the public bot id, and the colon may be percent-encoded.
	_, secret, _ := strings.Cut(token, ":")
	return &client{token: token,
		http: httpcall.New(httpcall.Options{Platform: "Telegram", API: "the Bot API", Base: base,
			Secrets: []string{secret}})}, nil
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
// error is a *httpcall.Refusal, whose Detail is the chat's new id if it migrated, or a
// *httpcall.TransportError.
func (c *client) call(ctx context.Context, op, method string, in map[string]any, out any, within time.Duration) error {
	body, err := json.Marshal(in)
	if err != nil {
		return &httpcall.TransportError{Op: op, Reason: err.Error()}
	}
	if in == nil {
		body = []byte("{}")
	}
	return c.post(ctx, httpcall.Request{Op: op, URL: method, Body: body, Timeout: within}, out)
}

// post makes a call whose URL is the method.
func (c *client) post(ctx context.Context, request httpcall.Request, out any) error {
	op := request.Op
	request.Method, request.URL = http.MethodPost, "/bot"+c.token+"/"+request.URL
	a, err := c.http.Do(ctx, request)
	if err != nil {
		return err
	}
	var r response
	if a.TooLarge || json.Unmarshal(a.Body, &r) != nil || !r.OK && r.Code == 0 {
		return c.http.NotAPI(op, a, a.Status < 400 || a.Status >= 500)
	}
	if !r.OK {
		e := c.http.Refuse(op, a)
		e.Status, e.Text = r.Code, c.http.Redact([]byte(r.Description))
		if after := httpcall.Seconds(float64(r.Parameters.RetryAfter)); after > 0 {
			e.RetryAfter = after
		}
		if r.Parameters.Migrated != 0 {
			e.Detail = strconv.FormatInt(r.Parameters.Migrated, 10)
		}
		return e
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(r.Result, out); err != nil {
		return &httpcall.TransportError{Op: op, Reason: "unexpected response: " + c.http.ErrorText(err), MaybeSent: true}
	}
	return nil
}
