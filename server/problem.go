package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/lazyregexp"
	"mailroom/server/internal/request"
)

// problem is a [api.Problem] about to be sent. Handlers return it to huma, which reads status,
// headers and content type from it.
type problem struct {
	api.Problem
	retryAfter int // seconds; 0: no header
}

func (p *problem) Error() string             { return p.Detail }
func (p *problem) GetStatus() int            { return p.Status }
func (p *problem) ContentType(string) string { return api.ProblemType }

func (p *problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	return h
}

// problemFor makes the problem for err and records both for the request's log line.
func problemFor(ctx context.Context, err error) *problem {
	e, ok := errors.AsType[*mailroom.Error](err)
	switch {
	case ok:
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e = &mailroom.Error{Code: mailroom.CodeUnavailable, Message: "the request ended before its outcome was known",
			Cause: err}
	default:
		e = &mailroom.Error{Code: mailroom.CodeInternal, Message: "internal", Cause: err}
	}
	p := &problem{Problem: api.NewProblem(e)}
	if status, ok := request.StatusOf(err); ok {
		p.Status, p.Title = status, http.StatusText(status)
	}
	if p.Code == mailroom.CodeRateLimited || p.Code == mailroom.CodeUnavailable {
		p.retryAfter = max(1, int(math.Ceil(min(e.RetryAfter, 24*time.Hour).Seconds())))
	}
	q := requestOf(ctx)
	q.redact(&p.Problem)
	q.code, q.cause = p.Code, err
	return p
}

// redact removes secrets from a problem: the caller's own token, and text that looks like a token
// of this server.
func (q *requestState) redact(p *api.Problem) {
	p.Detail = q.hide(p.Detail)
	for i := range p.Errors {
		f := &p.Errors[i]
		f.Location, f.Message = q.hide(f.Location), q.hide(f.Message)
		if text, ok := f.Value.(string); ok {
			f.Value = q.hide(text)
		}
	}
}

// hide removes secrets from a text. An invalid token shorter than minSecretLength stays: hiding
// every occurrence of a short word would garble the text.
func (q *requestState) hide(text string) string {
	if q.token != "" && (len(q.token) >= minSecretLength || q.who.Name != "") {
		text = strings.ReplaceAll(text, q.token, "…")
	}
	if strings.Contains(text, secretPrefix) {
		text = secretPattern().ReplaceAllString(text, "…")
	}
	return text
}

// secretPrefix begins every secret that this server makes, so that secret scanners recognize it.
const secretPrefix = "mr_"

// minSecretLength is the length, in characters, below which an invalid token is not treated as a
// secret.
const minSecretLength = 16

var secretPattern = lazyregexp.New(secretPrefix + `[0-9A-Za-z]{20,}`)

// refuse writes a problem without huma.
func refuse(out *response, r *http.Request, err error) {
	p := problemFor(r.Context(), err)
	body, err := json.Marshal(p.Problem)
	if err != nil { // cannot happen: NewProblem reduces values to plain ones
		q := requestOf(r.Context())
		q.code, q.cause = mailroom.CodeInternal, fmt.Errorf("encode problem: %w", err)
	}
	for k, v := range p.GetHeaders() {
		out.Header()[k] = v
	}
	out.Header().Set("Content-Type", api.ProblemType)
	out.Header().Set("Content-Length", strconv.Itoa(len(body)))
	out.WriteHeader(p.Status)
	_, _ = out.Write(body) // response keeps the error for the log line
}

// transformProblem is a huma transformer. It turns huma's own validation errors into problems with
// a code.
func transformProblem(hc huma.Context, _ string, v any) (any, error) {
	switch v := v.(type) {
	case *problem:
		return v.Problem, nil
	case *huma.ErrorModel:
		return fromHumaError(hc.Context(), v).Problem, nil
	}
	return v, nil
}

func fromHumaError(ctx context.Context, m *huma.ErrorModel) *problem {
	e := &mailroom.Error{Code: api.CodeOf(m.Status), Message: m.Detail}
	for _, d := range m.Errors {
		if d == nil {
			continue
		}
		f := mailroom.Field{Location: d.Location, Message: rephrase(d.Message), Value: d.Value}
		switch {
		case f.Message == "unknown field":
			f.Value = nil // huma's value is the whole object
		case f.Message == "unknown query parameter", f.Location == "body":
			f.Value = nil // the value may contain a secret
		}
		e.Fields = append(e.Fields, f)
	}
	if m.Status == http.StatusBadRequest && len(m.Errors) == 0 { // huma omits the location only for a missing body
		e.Fields = []mailroom.Field{{Location: "body", Message: "is missing"}}
	}
	slices.SortFunc(e.Fields, func(a, b mailroom.Field) int { return strings.Compare(a.Location, b.Location) })
	if len(e.Fields) > 0 {
		e.Message = fmt.Sprintf("%s: %s", request.Truncate(e.Fields[0].Location), request.Truncate(e.Fields[0].Message))
	}
	return problemFor(ctx, request.WithStatus(m.Status, e))
}

// rephrase turns a message of huma into a predicate of the field, as all other messages are: "must
// be at most 500" for "expected number <= 500". It returns any other message unchanged.
func rephrase(message string) string {
	for _, r := range [...]struct{ prefix, suffix, with string }{ // appends the text between them to with
		{"unexpected property", "", "unknown field"},
		{`expected value to be one of "`, `"`, "must be one of "},
		{"expected number >= ", "", "must be at least "},
		{"expected number <= ", "", "must be at most "},
		{"expected length >= ", "", "must have a length of at least "},
		{"expected length <= ", "", "must have a length of at most "},
		{"expected array length >= ", "", "must have a length of at least "},
		{"expected array length <= ", "", "must have a length of at most "},
		{"expected required property ", " to be present", "must have the field "},
		{"expected string to be RFC 3339 date-time", "", "must be an RFC 3339 date-time"},
		{"expected boolean", "", "must be true or false"},
		{"invalid boolean", "", "must be true or false"},
		{"expected integer", "", "must be an integer"},
		{"invalid integer", "", "must be an integer"},
		{"expected number", "", "must be a number"},
		{"expected string", "", "must be a string"},
		{"expected array", "", "must be a list"},
		{"expected object", "", "must be an object"},
	} {
		rest, ok := strings.CutPrefix(message, r.prefix)
		value, closed := strings.CutSuffix(rest, r.suffix)
		if needsValue := strings.HasSuffix(r.with, " "); ok && closed && needsValue == (value != "") {
			return r.with + value
		}
	}
	return message
}
