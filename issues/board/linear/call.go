package linear

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/httpcall"
	"mailroom/issues/board"
)

const (
	callTimeout = 20 * time.Second
	// limitPause is the pause after a limit whose end Linear does not say.
	limitPause = time.Minute
)

// Codes of refusals, beside the types of errors that Linear names.
const (
	codeLimit    = "ratelimited"
	codeAuth     = "authentication error"
	codeInvalid  = "invalid input"
	codeForbid   = "forbidden"
	codeNotFound = "entity not found"
	codeGraphQL  = "graphql error"
)

// problem is an error of an answer. Linear also sends one with status 200, and may send data with it.
type problem struct {
	Message    string `json:"message"`
	Path       []any  `json:"path"` // of the field that could not be read
	Extensions struct {
		Code string `json:"code"`
		Type string `json:"type"`
		Text string `json:"userPresentableMessage"`
	} `json:"extensions"`
}

// code returns what failed, as a word of this package or the type that Linear gives it.
func (p problem) code() string {
	if strings.Contains(strings.ToLower(p.Message), "entity not found") {
		return codeNotFound
	}
	switch strings.ToUpper(p.Extensions.Code) {
	case "RATELIMITED":
		return codeLimit
	case "AUTHENTICATION_ERROR":
		return codeAuth
	case "GRAPHQL_VALIDATION_FAILED":
		return codeGraphQL
	case "INPUT_ERROR":
		return cmp.Or(strings.ToLower(p.Extensions.Type), codeInvalid)
	}
	return strings.ToLower(cmp.Or(p.Extensions.Type, p.Extensions.Code, "error"))
}

// partError is an answer with data, but some of its fields could not be read. The data is in Data.
type partError struct {
	*httpcall.Refusal
	data     json.RawMessage
	problems []problem
}

func (e *partError) Unwrap() error { return e.Refusal }

// query reads. An error is a temporary failure, or a [channel.Fatal] error if the token is refused.
func (b *client) query(ctx context.Context, op, text string, variables map[string]any, into any) error {
	err := b.exchange(ctx, op, text, variables, into, false)
	refusal, refused := errors.AsType[*httpcall.Refusal](err)
	switch {
	case err == nil:
		return nil
	case refused && (refusal.Code == codeAuth || refusal.Status == http.StatusUnauthorized):
		return channel.Fatal(fmt.Errorf("the token is refused: %w", err))
	}
	return httpcall.Unavailable(err)
}

// mutate writes. Its errors have the class for a delivery.
func (b *client) mutate(ctx context.Context, op, text string, variables map[string]any, into any) error {
	err := b.exchange(ctx, op, text, variables, into, true)
	if part, ok := errors.AsType[*partError](err); ok { // it was carried out, or not
		return fmt.Errorf("%w: %w", mailroom.ErrUnknown, httpcall.Unavailable(part))
	}
	return httpcall.SendError(err, classOf)
}

// classOf returns the class of a refused write. Only a refusal that names its reason is one that nothing came of.
func classOf(e *httpcall.Refusal) httpcall.Class {
	switch {
	case e.Code == codeLimit, e.Code == codeAuth, e.Status == http.StatusUnauthorized: // a token can be renewed
		return httpcall.ClassUnavailable
	case e.Code == codeInvalid, e.Code == codeForbid, e.Code == codeNotFound, e.Code == "user error",
		e.Code == codeGraphQL, e.Code == "feature not accessible", e.Code == "usage limit exceeded":
		return httpcall.ClassPermanent
	}
	return httpcall.ClassUnknown
}

func (b *client) exchange(ctx context.Context, op, text string, variables map[string]any, into any, write bool) error {
	if wait := b.limits.Wait(time.Now()); wait > 0 {
		return &httpcall.Refusal{Op: op, Platform: "Linear", Code: codeLimit, Text: "waiting for it to end",
			RetryAfter: wait, Everywhere: true}
	}
	body, err := json.Marshal(map[string]any{"query": text, "variables": variables})
	if err != nil {
		return httpcall.Permanent(fmt.Errorf("encode the request to %s: %w", op, err))
	}
	authorization := "Bearer " + b.options.Token
	if strings.HasPrefix(b.options.Token, "lin_api_") {
		authorization = b.options.Token
	}
	r, err := b.http.Do(ctx, httpcall.Request{Op: op, Method: http.MethodPost, URL: "/graphql", Body: body,
		Header: http.Header{"Authorization": {authorization}}, Timeout: callTimeout})
	if err != nil {
		return err
	}
	return b.check(op, r, into, write)
}

// check returns the error that a response means, and else decodes its data.
func (b *client) check(op string, r httpcall.Response, into any, write bool) error {
	var answer struct {
		Data   json.RawMessage `json:"data"`
		Errors []problem       `json:"errors"`
	}
	decoded := json.Unmarshal(r.Body, &answer)
	code, message := "", ""
	for _, p := range answer.Errors {
		if code == "" || p.code() == codeLimit {
			code, message = p.code(), cmp.Or(p.Extensions.Text, p.Message)
		}
	}
	if r.Status == http.StatusTooManyRequests {
		code = codeLimit
	}
	pause := b.limits.Note(r, code == codeLimit, time.Now())
	refusal := b.http.Refuse(op, r)
	refusal.Code, refusal.Text = code, b.http.Redact([]byte(cmp.Or(message, http.StatusText(r.Status))))
	switch {
	case r.TooLarge:
		return &httpcall.TransportError{Op: op, Reason: fmt.Sprintf("the answer is larger than %d MiB", maxAnswer>>20),
			MaybeSent: write}
	case code == codeLimit:
		refusal.RetryAfter, refusal.Everywhere = pause, true
		return refusal
	case code != "" && hasData(answer.Data):
		return &partError{Refusal: refusal, data: answer.Data, problems: answer.Errors}
	case code != "", r.Status >= http.StatusInternalServerError:
		return refusal
	case decoded != nil:
		return b.http.NotAPI(op, r, write)
	case r.Status != http.StatusOK:
		return refusal
	}
	if err := json.Unmarshal(answer.Data, into); err != nil || len(answer.Data) == 0 {
		return b.http.NotAPI(op, r, write)
	}
	return nil
}

// hasData reports whether the data of an answer has any field that is not null.
func hasData(raw json.RawMessage) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return false
	}
	for _, value := range fields {
		if string(value) != "null" {
			return true
		}
	}
	return false
}

// Names of the limits of a token, which Linear counts in requests and in points of complexity. A field of the schema
// may have a limit of its own.
const (
	limitRequests = "Requests"
	limitPoints   = "Complexity"
	limitEndpoint = "Endpoint-Requests"
)

func newLimits() *board.Limits {
	return board.NewLimits(time.Millisecond, limitPause, limitRequests, limitPoints, limitEndpoint)
}

// statusOf returns what is left, as Linear says.
func statusOf(l *board.Limits) string {
	requests, points := l.Left(limitRequests), l.Left(limitPoints)
	switch {
	case requests == "":
		return ""
	case points == "":
		return requests + " requests left"
	}
	return requests + " requests and " + points + " points left"
}
