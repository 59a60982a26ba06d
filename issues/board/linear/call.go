package linear

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/httpcall"
)

const (
	callTimeout = 20 * time.Second
	// limitPause is the pause after a limit whose end Linear does not say.
	limitPause = time.Minute
	// maxPause bounds a pause that the server asks for. The limits are renewed within an hour.
	// https://linear.app/developers/rate-limiting
	maxPause = time.Hour
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
	if wait := b.limits.wait(time.Now()); wait > 0 {
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
	pause := b.limits.note(r, code == codeLimit, time.Now())
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

// limits follows the limits of a token, which Linear counts in requests and in points of complexity.
type limits struct {
	// Owned by mu.
	mu               sync.Mutex
	until            time.Time // no call before it
	requests, points string    // what is left, as the server says; "" if it does not
	answered         time.Time // time of the last answer by the clock of the server; zero: none, or not said
}

func (l *limits) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.requests == "":
		return ""
	case l.points == "":
		return l.requests + " requests left"
	}
	return l.requests + " requests and " + l.points + " points left"
}

// lastAnswer returns the time of the last answer by the clock of the server.
func (l *limits) lastAnswer() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered
}

func (l *limits) wait(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.until.Sub(now), 0)
}

// note remembers what the headers of a response say, and returns how long no call may follow.
func (l *limits) note(r httpcall.Response, limited bool, now time.Time) (pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	server, err := http.ParseTime(r.Header.Get("Date"))
	if l.answered = server; err != nil {
		server = now
	}
	var endpoint string
	for name, left := range map[string]*string{"Requests": &l.requests, "Complexity": &l.points,
		"Endpoint-Requests": &endpoint} {
		remaining := r.Header.Get("X-Ratelimit-" + name + "-Remaining")
		if _, err := strconv.ParseFloat(remaining, 64); err != nil {
			continue
		}
		*left = remaining
		reset, err := strconv.ParseInt(r.Header.Get("X-Ratelimit-"+name+"-Reset"), 10, 64) // milliseconds
		if remaining == "0" && err == nil && reset > 0 {
			pause = max(pause, time.UnixMilli(reset).Sub(server))
		}
	}
	if limited {
		if after := r.RetryAfter(); after > 0 {
			pause = after
		}
		if pause <= 0 { // the points that are left are too few for the query, and more come each minute
			pause = limitPause
		}
	}
	pause = min(max(pause, 0), maxPause)
	if until := now.Add(pause); until.After(l.until) {
		l.until = until
	}
	return pause
}
