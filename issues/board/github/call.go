package github

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"mailroom/channel"
	"mailroom/channel/httpcall"
	"mailroom/issues/board"
)

const (
	callTimeout = 20 * time.Second
	// codeMoved is the code of a refusal for a redirect. No redirect is followed, because it could carry the token to
	// another host.
	codeMoved = "moved"
	// codeLimit is the code of a refusal for a rate limit.
	codeLimit = "rate limit"
	// secondaryPause is the pause after a secondary limit without a Retry-After.
	// https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
	secondaryPause = time.Minute
	// maxQueue bounds how long a write of a board waits for its turn.
	maxQueue = 10 * time.Second
)

// call makes one call. A read that fails is a temporary failure, or a [channel.Fatal] error if the token is refused.
// The error of a write has the class for a delivery.
func (b *Board) call(ctx context.Context, op, method, path string, body []byte, etag string) (
	httpcall.Response, error,
) {
	r, err := b.exchange(ctx, op, method, path, body, etag)
	refusal, refused := errors.AsType[*httpcall.Refusal](err)
	switch {
	case err == nil:
		return r, nil
	case refused && refusal.Status == http.StatusUnauthorized && method == http.MethodGet:
		return r, channel.Fatal(fmt.Errorf("the token is refused: %w", err))
	case method == http.MethodGet:
		return r, httpcall.Unavailable(err)
	}
	return r, httpcall.SendError(err, classOf)
}

// classOf returns the class of a refused write.
func classOf(e *httpcall.Refusal) httpcall.Class {
	switch {
	case e.Code == codeLimit, e.Status == http.StatusUnauthorized, lacksRight(e): // a token can be renewed
		return httpcall.ClassUnavailable
	case e.Status >= http.StatusInternalServerError:
		return httpcall.ClassUnknown
	}
	return httpcall.ClassPermanent
}

// lacksRight reports whether the token may not write issues. GitHub answers 403 for a locked issue too; the two differ
// only in their text: "Resource not accessible by personal access token", or "by integration".
func lacksRight(e *httpcall.Refusal) bool {
	return e.Status == http.StatusForbidden && strings.Contains(strings.ToLower(e.Text), "not accessible by")
}

func (b *Board) exchange(ctx context.Context, op, method, path string, body []byte, etag string) (
	r httpcall.Response, err error,
) {
	if wait := b.limits.Wait(time.Now()); wait > 0 {
		return r, &httpcall.Refusal{Op: op, Platform: "GitHub", Code: codeLimit, Text: "waiting for it to end",
			RetryAfter: wait, Everywhere: true}
	}
	write := method != http.MethodGet
	if write {
		if err := b.limits.turn(ctx, op); err != nil {
			return r, err
		}
	}
	header := http.Header{"Authorization": {"Bearer " + b.options.Token}, "Accept": {"application/vnd.github+json"},
		"X-Github-Api-Version": {"2022-11-28"}}
	if etag != "" {
		header.Set("If-None-Match", etag)
	}
	r, err = b.http.Do(ctx, httpcall.Request{Op: op, Method: method, URL: path, Header: header, Body: body,
		Timeout: callTimeout})
	if err != nil {
		return r, err
	}
	return r, b.check(op, r, write, etag != "")
}

// check returns the error that a response means.
func (b *Board) check(op string, r httpcall.Response, write, conditional bool) error {
	var answer struct {
		Message string `json:"message"`
	}
	isJSON := json.Valid(r.Body)
	if isJSON {
		_ = json.Unmarshal(r.Body, &answer) // a list has no message
	}
	limited := isLimited(r, answer.Message)
	pause := b.limits.Note(r, limited, time.Now())
	refusal := b.http.Refuse(op, r)
	refusal.Text = b.http.Redact([]byte(cmp.Or(answer.Message, http.StatusText(r.Status))))
	switch {
	case r.TooLarge:
		return &httpcall.TransportError{Op: op, Reason: fmt.Sprintf("the answer is larger than %d MiB", maxAnswer>>20),
			MaybeSent: write}
	case limited:
		refusal.Code, refusal.RetryAfter, refusal.Everywhere = codeLimit, pause, true
		return refusal
	case r.Status == http.StatusNotModified && conditional, r.Status == http.StatusNoContent:
		return nil
	case r.Status >= 300 && r.Status < 400:
		refusal.Code = codeMoved
		return refusal
	case r.Status >= http.StatusInternalServerError:
		return refusal
	case !isJSON:
		return b.http.NotAPI(op, r, write && r.Status < 300)
	case r.Status < 200 || r.Status >= 300:
		return refusal
	}
	return nil
}

// limits follows the rate limits of a token, and gives writes their turns.
type limits struct {
	*board.Limits
	pause time.Duration // least time between two writes
	queue time.Duration // most time that a write waits for its turn

	mu   sync.Mutex
	next time.Time // turn of the next write; owned by mu
}

func newLimits(pause, queue time.Duration) *limits {
	return &limits{Limits: board.NewLimits(time.Second, secondaryPause, ""), pause: pause, queue: queue}
}

func (l *limits) String() string {
	if left := l.Left(""); left != "" {
		return left + " requests left"
	}
	return ""
}

// turn waits for the turn of a write.
func (l *limits) turn(ctx context.Context, op string) error {
	l.mu.Lock()
	now := time.Now()
	at := l.next
	if at.Before(now) {
		at = now
	}
	wait := at.Sub(now)
	if wait <= l.queue {
		l.next = at.Add(l.pause)
	}
	l.mu.Unlock()
	switch {
	case wait > l.queue:
		return &httpcall.Refusal{Op: op, Platform: "GitHub", Code: codeLimit, Text: "other writes are waiting",
			RetryAfter: wait}
	case wait == 0:
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return &httpcall.TransportError{Op: op, Reason: "request cancelled", Cause: ctx.Err()}
	}
}

// isLimited reports whether a call was refused because of a limit.
func isLimited(r httpcall.Response, message string) bool {
	lower := strings.ToLower(message)
	return r.Status == http.StatusTooManyRequests || r.Status == http.StatusForbidden &&
		(r.Header.Get("Retry-After") != "" || r.Header.Get("X-Ratelimit-Remaining") == "0" ||
			strings.Contains(lower, "rate limit") || strings.Contains(lower, "abuse detection"))
}
