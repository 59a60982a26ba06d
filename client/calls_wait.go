package client

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"mailroom"
	"mailroom/api"
)

// Tickets returns a page of tickets. A filter can use id, state, kind, agent, thread and run.
func (c *Client) Tickets(ctx context.Context, q ListQuery) (api.Page[api.Ticket], error) {
	return get[api.Page[api.Ticket]](ctx, c, "/v1/tickets", q.values())
}

// Ticket returns one ticket.
func (c *Client) Ticket(ctx context.Context, ticket string) (api.Ticket, error) {
	return get[api.Ticket](ctx, c, path("v1", "tickets", ticket), nil)
}

// Decide decides a ticket. A ticket is decided once: the server answers a repeat of the same decision with the ticket,
// so Decide repeats a request that got no answer. The error is Conflict if the ticket has another decision, is void or
// has another digest, and Gone if the ticket has expired.
func (c *Client) Decide(ctx context.Context, ticket string, d api.Decision) (api.Ticket, error) {
	return repeat[api.Ticket](ctx, c, request{method: http.MethodPost, path: path("v1", "tickets", ticket), body: d})
}

// CancelTree cancels a run like CancelRun, and its open descendants.
func (c *Client) CancelTree(ctx context.Context, run string) (api.Run, error) {
	return ask[api.Run](ctx, c, request{method: http.MethodPost, path: path("v1", "runs", run, "cancel"),
		body: api.Cancel{Children: true}})
}

// RetryRuns queues the failed and cancelled runs that a filter matches again, or
// only counts them.
func (c *Client) RetryRuns(ctx context.Context, in api.RetryMany) (api.Retried, error) {
	return ask[api.Retried](ctx, c, request{method: http.MethodPost, path: "/v1/runs/retry", body: in})
}

// CancelRuns cancels the open runs that a filter matches, or only counts them.
func (c *Client) CancelRuns(ctx context.Context, in api.CancelMany) (api.CancelledMany, error) {
	return ask[api.CancelledMany](ctx, c, request{method: http.MethodPost, path: "/v1/runs/cancel", body: in})
}

// Agents returns all agents, by name.
func (c *Client) Agents(ctx context.Context) ([]api.Agent, error) {
	page, err := get[api.Page[api.Agent]](ctx, c, "/v1/agents", nil)
	return page.Items, err
}

// PauseAgent pauses an agent until ResumeAgent: no server and no worker starts a run of it. When PauseAgent returns,
// no further run starts.
func (c *Client) PauseAgent(ctx context.Context, name, reason string) (api.Pause, error) {
	return ask[api.Pause](ctx, c, request{method: http.MethodPost, path: path("v1", "agents", name, "pause"),
		body: api.PauseAgent{Reason: reason}})
}

// ResumeAgent ends the pause of an agent. The error is a conflict if the agent is not paused.
func (c *Client) ResumeAgent(ctx context.Context, name string) error {
	return c.call(ctx, request{method: http.MethodPost, path: path("v1", "agents", name, "resume")}, nil)
}

// Workers returns all workers that have a lease, by id.
func (c *Client) Workers(ctx context.Context) ([]api.Worker, error) {
	page, err := get[api.Page[api.Worker]](ctx, c, "/v1/workers", nil)
	return page.Items, err
}

// CountRuns counts the runs that a filter matches. It stops at about most runs; 0 means no limit. more reports
// whether older runs were not counted.
func (c *Client) CountRuns(ctx context.Context, q string, most int) (n int, more bool, err error) {
	for cursor := ""; ; {
		v := url.Values{}
		put(v, "q", q)
		put(v, "cursor", cursor)
		part, err := get[api.RunCount](ctx, c, "/v1/runs/count", v)
		n += part.Count
		if err != nil || part.Next == nil {
			return n, err != nil, err
		}
		if most > 0 && n >= most {
			return n, true, nil
		}
		cursor = *part.Next
	}
}

// Sums makes the calls about what happened.
type Sums struct{ c *Client }

// Sums returns the calls about what happened: sums of runs, and the audit log.
func (c *Client) Sums() Sums { return Sums{c} }

// Waits returns why queued runs that match a filter do not run, the cause of the most runs first.
func (s Sums) Waits(ctx context.Context, q string) (api.Waits, error) {
	return get[api.Waits](ctx, s.c, "/v1/waits", url.Values{"q": {q}})
}

// Failures returns failed runs by error group, the latest failure first, at most limit groups.
func (s Sums) Failures(ctx context.Context, q string, limit int) (api.Failures, error) {
	v := url.Values{}
	put(v, "q", q)
	putInt(v, "limit", int64(limit))
	return get[api.Failures](ctx, s.c, "/v1/failures", v)
}

// Audit returns a page of the audit log, the newest action first. A filter can use actor, action, object, kind,
// thread, from and at. It needs the scope admin.
func (s Sums) Audit(ctx context.Context, q ListQuery) (api.Page[api.AuditedAction], error) {
	return get[api.Page[api.AuditedAction]](ctx, s.c, "/v1/audit", q.values())
}

// ReportQuery selects the period of a report; zero values are the defaults of the server.
type ReportQuery struct {
	Since, Until time.Time
	Agent        string // "": all agents
}

// Report returns what agents did, asked and spent in a period.
func (s Sums) Report(ctx context.Context, q ReportQuery) (api.Report, error) {
	v := url.Values{}
	put(v, "agent", q.Agent)
	putTime(v, "since", q.Since)
	putTime(v, "until", q.Until)
	return get[api.Report](ctx, s.c, "/v1/report", v)
}

// Stats counts what the server has.
func (c *Client) Stats(ctx context.Context) (api.Stats, error) {
	return get[api.Stats](ctx, c, "/v1/stats", nil)
}

// SeriesQuery selects ended runs; zero values are the defaults of the server.
type SeriesQuery struct {
	Step     string // minute, hour or day
	From, To time.Time
	Agent    string
}

// Series sums up ended runs by time. It needs the scope metrics.
func (c *Client) Series(ctx context.Context, q SeriesQuery) (api.Series, error) {
	v := q.values()
	put(v, "agent", q.Agent)
	return get[api.Series](ctx, c, "/v1/stats/series", v)
}

// Ended sums up ended runs by agent, or by the value of the label with by "label", of a query without an agent. It
// needs the scope metrics.
func (s Sums) Ended(ctx context.Context, q SeriesQuery, by string) (api.Sums, error) {
	v := q.values()
	put(v, "by", by)
	return get[api.Sums](ctx, s.c, "/v1/stats/sums", v)
}

func (q SeriesQuery) values() url.Values {
	v := url.Values{}
	put(v, "step", q.Step)
	putTime(v, "from", q.From)
	putTime(v, "to", q.To)
	return v
}

// SearchQuery selects messages by their words.
type SearchQuery struct {
	Q      string
	Thread string // thread of the messages; "": all threads
	Cursor string
	Limit  int // longest list; 0: the default of the server
}

// Search finds messages, the newest first. A page may be empty although another page follows.
func (c *Client) Search(ctx context.Context, q SearchQuery) (api.FoundMessages, error) {
	v := url.Values{}
	put(v, "q", q.Q)
	put(v, "thread", q.Thread)
	put(v, "cursor", q.Cursor)
	putInt(v, "limit", int64(q.Limit))
	return get[api.FoundMessages](ctx, c, "/v1/search", v)
}

// ErrNotSent is wrapped by the error of a Submit or Decide that the server certainly did not receive, because no
// attempt could connect to the server. After any other unavailable error, the server may have accepted the call.
var ErrNotSent = errors.New("no connection to the server")

// notSentError wraps err and [ErrNotSent], and has the text of err alone.
type notSentError struct{ err error }

func (e *notSentError) Error() string   { return e.err.Error() }
func (e *notSentError) Unwrap() []error { return []error{e.err, ErrNotSent} }

// repeat sends q until an answer comes, at most as often as the client's options allow. Use it only for a request
// whose repeat the server recognizes.
func repeat[T any](ctx context.Context, c *Client, q request) (T, error) {
	again := c.newReconnect()
	for maybeSent := false; ; {
		out, err := ask[T](ctx, c, q)
		if mailroom.CodeOf(err) != mailroom.CodeUnavailable {
			return out, err
		}
		maybeSent = maybeSent || !failedToConnect(err)
		if err := again.pause(ctx, err); err != nil {
			var none T
			if !maybeSent {
				err = &notSentError{err}
			}
			return none, err
		}
	}
}

// failedToConnect reports whether a request failed before there was a connection to the server.
func failedToConnect(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "dial"
}
