package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/project"
)

// Problem is the body of every error answer: RFC 9457, with a code.
type Problem struct {
	Type   string         `json:"type" doc:"Always about:blank; see code."`
	Title  string         `json:"title" doc:"Name of the HTTP status."`
	Status int            `json:"status" doc:"The HTTP status of the answer."`
	Detail string         `json:"detail" doc:"What was wrong, and what to do."`
	Code   mailroom.Code  `json:"code" doc:"Classifies the refusal for programs; see the codes of the operation."`
	Errors []ProblemField `json:"errors" doc:"The wrong parts of the request."`
	Held   []Reservation  `json:"held,omitempty" doc:"Who has reserved what was asked for."`
}

// ProblemField names one wrong part of a request. Value is what was given, cut.
type ProblemField struct {
	Location string `json:"location" doc:"A path such as body.priority or query.limit."`
	Message  string `json:"message" doc:"What is wrong with the value there, or what it must be."`
	Value    any    `json:"value,omitempty" doc:"What was given, cut at 100 characters. Absent: no value, or one that is not repeated."`
}

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"

// MaxProblemValue is the length, in characters, at which values are cut.
const MaxProblemValue = 100

type mapping struct {
	code   mailroom.Code
	status int
}

// mappings is the one table between codes and statuses. The first row of a code
// is its status; every row maps its status back.
func mappings() []mapping {
	return []mapping{
		{mailroom.CodeInvalid, http.StatusUnprocessableEntity},
		{mailroom.CodeInvalid, http.StatusBadRequest},
		{mailroom.CodeInvalid, http.StatusMethodNotAllowed},
		{mailroom.CodeInvalid, http.StatusUnsupportedMediaType},
		{mailroom.CodeUnserved, http.StatusUnprocessableEntity},
		{mailroom.CodeUnauthenticated, http.StatusUnauthorized},
		{mailroom.CodeForbidden, http.StatusForbidden},
		{mailroom.CodeQuotaExceeded, http.StatusForbidden},
		{mailroom.CodeNotFound, http.StatusNotFound},
		{mailroom.CodeConflict, http.StatusConflict},
		{mailroom.CodeBusy, http.StatusConflict},
		{mailroom.CodeLeaseLost, http.StatusConflict},
		{mailroom.CodeGone, http.StatusGone},
		{mailroom.CodeTooLarge, http.StatusRequestEntityTooLarge},
		{mailroom.CodeTooLarge, http.StatusRequestHeaderFieldsTooLarge},
		{mailroom.CodeRateLimited, http.StatusTooManyRequests},
		{mailroom.CodeInternal, http.StatusInternalServerError},
		{mailroom.CodeUnavailable, http.StatusServiceUnavailable},
		{mailroom.CodeUnavailable, http.StatusBadGateway},
		{mailroom.CodeUnavailable, http.StatusGatewayTimeout},
		{mailroom.CodeUnavailable, http.StatusRequestTimeout},
	}
}

// StatusOf returns the HTTP status of an error with this code.
func StatusOf(code mailroom.Code) int {
	for _, m := range mappings() {
		if m.code == code {
			return m.status
		}
	}
	return http.StatusInternalServerError
}

// CodeOf returns the code that an HTTP status stands for when the answer names
// none: Invalid for other 4xx, else Internal.
func CodeOf(status int) mailroom.Code {
	for _, m := range mappings() {
		if m.status == status {
			return m.code
		}
	}
	if status >= 400 && status < 500 {
		return mailroom.CodeInvalid
	}
	return mailroom.CodeInternal
}

func KnownCode(code mailroom.Code) bool {
	for _, m := range mappings() {
		if m.code == code {
			return true
		}
	}
	return false
}

// NewProblem returns the problem for err, which is not nil. An error with the code
// internal, or an unknown one, discloses nothing: its text stays in the server's log.
func NewProblem(err *mailroom.Error) Problem {
	p := Problem{Type: "about:blank", Code: err.Code, Detail: err.Message, Status: StatusOf(err.Code),
		Errors: []ProblemField{}}
	p.Title = http.StatusText(p.Status)
	if err.Code == mailroom.CodeInternal || !KnownCode(err.Code) {
		p.Code, p.Detail = mailroom.CodeInternal, "the server failed; its log has the reason under the id of this request"
		return p
	}
	for _, f := range err.Fields {
		p.Errors = append(p.Errors, ProblemField{Location: f.Location, Message: f.Message, Value: CutValue(f.Value)})
	}
	if held, ok := errors.AsType[*project.ReservedError](err.Cause); ok {
		for _, r := range held.By {
			p.Held = append(p.Held, NewReservation(r))
		}
	}
	return p
}

// Err converts the problem to an error. retryAfter is the value of the Retry-After
// header, zero without one.
func (p Problem) Err(retryAfter time.Duration) *mailroom.Error {
	e := &mailroom.Error{Code: p.Code, Message: p.Detail, RetryAfter: retryAfter}
	if !KnownCode(e.Code) {
		e.Code = CodeOf(p.Status)
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("the server answered %d %s", p.Status, http.StatusText(p.Status))
	}
	for _, f := range p.Errors {
		e.Fields = append(e.Fields, mailroom.Field(f))
	}
	if len(p.Held) > 0 {
		held := &project.ReservedError{}
		for _, r := range p.Held {
			held.By = append(held.By, r.row())
		}
		e.Cause = held
	}
	return e
}

// CutValue shortens v to what may be shown in a problem.
func CutValue(v any) any {
	switch v := v.(type) {
	case nil, bool, int, int64, float64:
		return v
	case string:
		return cut(v)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return cut(fmt.Sprintf("%v", v))
	}
	return cut(string(raw))
}

func cut(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if utf8.RuneCountInString(s) <= MaxProblemValue {
		return s
	}
	return string([]rune(s)[:MaxProblemValue]) + "…"
}
