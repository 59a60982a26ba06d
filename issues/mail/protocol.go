package mail

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
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
)

const (
	maxAnswer = 1 << 20 // bytes read of a response
	maxQuote  = 200     // characters of server text in a message
)

// verdict classifies the outcome of a request.
type verdict int

const (
	verdictDone    verdict = iota
	verdictHeld            // another agent holds the requested reservation
	verdictRefused         // the request is wrong, the server works
	verdictFailed          // the server cannot be used now
)

// result is a verdict with its details.
type result struct {
	verdict verdict
	reason  string         // why a request was refused or failed; follows the server's name in a message
	retry   time.Duration  // Retry-After of a failed server; 0 if absent
	holder  *ReservedError // with verdictHeld: the reservation of the other agent
}

// request is one HTTP request of the protocol.
type request struct {
	method, path string // path below /api, escaped
	key, project string
	body         any // nil for a request without a body
	mayBeEmpty   bool
}

func (b *Client) reservation(issue string) request {
	return request{method: http.MethodPost, path: "/reservations", project: b.settings.Project, body: struct {
		Path  string `json:"file_path"`
		Agent string `json:"agent_name"`
		TTL   int    `json:"ttl"`
	}{".beads/issues/" + issue, b.settings.Agent, int(lease.Seconds())}}
}

func (c Call) request() request {
	if c.Issue != "" {
		return request{
			method: http.MethodDelete, path: "/reservations/" + url.PathEscape(c.Agent) + "/" + url.PathEscape(c.Issue),
			project: c.Project, mayBeEmpty: true,
		}
	}
	return request{method: http.MethodPost, path: "/notifications", key: c.Key, project: c.Project, body: struct {
		From    string          `json:"from_agent"`
		Type    string          `json:"event_type"`
		Payload json.RawMessage `json:"payload"`
	}{c.Agent, c.Type, c.Payload}}
}

// send sends a request within the command's remaining time and classifies the outcome.
func (b *Client) send(ctx context.Context, r request) result {
	begin := time.Now()
	defer func() { b.spent += time.Since(begin) }()
	ctx, cancel := context.WithTimeout(ctx, b.timeLeft())
	defer cancel()
	var body io.Reader
	if r.body != nil {
		raw, err := json.Marshal(r.body)
		if err != nil {
			return result{verdict: verdictRefused, reason: "cannot be sent: " + b.quote(err.Error())}
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, b.base+"/api"+r.path, body)
	if err != nil {
		return result{verdict: verdictFailed, reason: "cannot be used (invalid request)"} // the error contains the address
	}
	req.Header.Set("Accept", "application/json")
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range map[string]string{"X-Project": r.project, "Idempotency-Key": r.key} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if b.settings.Token != "" {
		req.Header.Set("Authorization", "Bearer "+b.settings.Token)
	}
	res, err := b.client.Do(req)
	if err != nil {
		return result{verdict: verdictFailed, reason: b.describeError(err)}
	}
	defer res.Body.Close() // the response was read, or is not needed
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return result{verdict: verdictFailed, reason: b.describeError(err)}
	}
	return b.classify(r, res, raw)
}

// classify returns the verdict on a response.
func (b *Client) classify(r request, res *http.Response, raw []byte) result {
	status := strings.TrimSpace(fmt.Sprintf("%d %s", res.StatusCode, http.StatusText(res.StatusCode)))
	cannot := func(why string) result {
		return result{verdict: verdictFailed, reason: "cannot be used (" + why + ")",
			retry: parseRetryAfter(res.Header, time.Now())}
	}
	switch code := res.StatusCode; {
	case code == http.StatusConflict && strings.HasPrefix(r.path, "/reservations"):
		return result{verdict: verdictHeld, holder: b.parseHolder(raw)}
	case code >= 200 && code < 300:
		switch {
		case len(raw) > maxAnswer:
			return cannot(fmt.Sprintf("its answer is larger than %d bytes", maxAnswer))
		case len(bytes.TrimSpace(raw)) == 0 && code != http.StatusNoContent && !r.mayBeEmpty:
			return cannot("it answered " + status + " with an empty body")
		case len(bytes.TrimSpace(raw)) > 0 && !json.Valid(raw):
			return cannot("it answered " + status + " with a body that is not JSON")
		}
		return result{verdict: verdictDone}
	case code == http.StatusBadRequest, code == http.StatusConflict, code == http.StatusRequestEntityTooLarge,
		code == http.StatusUnsupportedMediaType, code == http.StatusUnprocessableEntity:
		return result{verdict: verdictRefused, reason: "refused this: " + status + b.errorText(raw)}
	case code >= 300 && code < 400:
		return cannot("it answered " + status + ", and redirects are not followed: set the final address")
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return cannot("it answered " + status + ": check AGENT_MAIL_TOKEN")
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed:
		return cannot("it answered " + status + ": check AGENT_MAIL_URL")
	default:
		return cannot("it answered " + status)
	}
}

// errorText returns the server's error text, which is printed after the status, or "".
func (b *Client) errorText(raw []byte) string {
	var body struct {
		Error any `json:"error"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return "" // the body is not readable JSON
	}
	if text, ok := body.Error.(string); ok && text != "" {
		return ", " + b.quote(text)
	}
	return ""
}

// parseHolder reads who holds a reservation from the server's answer. An answer that cannot be read still means that
// another agent holds the reservation.
func (b *Client) parseHolder(raw []byte) *ReservedError {
	h := &ReservedError{By: "another agent", Self: b.quote(b.settings.Agent)}
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		return h
	}
	text := func(name string) string {
		s, _ := body[name].(string) // "" if the member is not text
		return s
	}
	name := text("holder")
	if name == "" {
		_, name, _ = strings.Cut(text("error"), "reserved by ")
		name, _, _ = strings.Cut(name, " until ")
	}
	if name = b.quote(name); name != "" {
		h.By = name
	}
	if at, err := time.Parse(time.RFC3339, text("expires_at")); err == nil {
		h.Until = at
	}
	return h
}

// describeError describes why there was no response. It reports only the cause, because errors of
// net/http quote the address, which may contain a password.
func (b *Client) describeError(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	why := ""
	dns, unknown := errors.AsType[*net.DNSError](err)
	timeout, slow := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), slow && timeout.Timeout():
		return fmt.Sprintf("does not answer within %s", b.settings.Timeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		why = "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		why = "connection reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		why = "it closed the connection"
	case unknown && dns.IsNotFound:
		why = "no such host"
	default:
		why = b.quote(err.Error())
	}
	return "cannot be reached (" + why + ")"
}

// quote makes text of the server safe for one line of a message: short, printable, and without the
// token.
func (b *Client) quote(text string) string {
	if b.settings.Token != "" {
		text = strings.ReplaceAll(text, b.settings.Token, "…")
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > maxQuote {
		runes = append(runes[:maxQuote-1], '…')
	}
	return string(runes)
}

// parseRetryAfter parses a Retry-After header, in seconds or as a date.
func parseRetryAfter(header http.Header, now time.Time) time.Duration {
	text := header.Get("Retry-After")
	if n, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(n, 0), int(maxBackoff.Seconds()))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
