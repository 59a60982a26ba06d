package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"mailroom"
	"mailroom/api"
)

// Work has the calls of a worker process: leases, claims, and the writes under a claim. Each call is sent once. If it
// gets no answer, the worker repeats it under the same number, so that the server recognizes the repeat.
type Work struct{ c *Client }

// Claim claims due runs, and registers a worker if the request names none. The server
// waits for due runs at most for wait.
func (w Work) Claim(ctx context.Context, in api.ClaimRequest, wait time.Duration) (api.Claims, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+w.c.options.timeout)
	defer cancel()
	if wait > 0 {
		in.Wait = wait.String()
	}
	var out api.Claims
	err := w.c.exchange(ctx, request{method: http.MethodPost, path: "/v1/claims", body: in}, &out)
	return out, err
}

// Renew extends a worker's lease. With a nil Held it releases no claim; with an empty one it releases every claim of
// the rounds up to Round.
func (w Work) Renew(ctx context.Context, worker string, in api.Renewal) (api.Renewed, error) {
	return ask[api.Renewed](ctx, w.c, request{method: http.MethodPost, path: path("v1", "workers", worker, "renew"),
		body: in})
}

// Leave ends a worker's lease. The server releases the claims that are not among entered, as the worker never began to
// work on them; the others are lost. With nil all are lost.
func (w Work) Leave(ctx context.Context, worker string, entered []string) error {
	return w.c.call(ctx, request{method: http.MethodPost, path: path("v1", "workers", worker, "leave"),
		body: api.Leave{Entered: entered}}, nil)
}

// callClaim posts in to the resource what of a claim, and returns the answer.
func callClaim[T any](ctx context.Context, c *Client, claim mailroom.Claim, what string, in any) (T, error) {
	return ask[T](ctx, c, request{method: http.MethodPost, path: path("v1", "claims", api.ClaimID(claim), what), body: in})
}

// Append commits a step of a claimed run.
func (w Work) Append(ctx context.Context, claim mailroom.Claim, in api.StepCommit) (api.Appended, error) {
	return callClaim[api.Appended](ctx, w.c, claim, "entries", in)
}

// Write streams a chunk of the message that a claimed run is writing. The server stores the chunk unless in marks it
// as live text.
func (w Work) Write(ctx context.Context, claim mailroom.Claim, in api.Text) (api.TextTaken, error) {
	return callClaim[api.TextTaken](ctx, w.c, claim, "deltas", in)
}

// Settle ends an attempt.
func (w Work) Settle(ctx context.Context, claim mailroom.Claim, in api.Settle) (api.Run, error) {
	return callClaim[api.Run](ctx, w.c, claim, "settle", in)
}

// HandOver returns the messages that were steered into a claimed run and marks them as
// read.
func (w Work) HandOver(ctx context.Context, claim mailroom.Claim, after int64) (api.HandedOver, error) {
	return callClaim[api.HandedOver](ctx, w.c, claim, "steered", api.HandOver{After: after})
}

// Run returns the current state of a claimed run.
func (w Work) Run(ctx context.Context, claim mailroom.Claim) (api.ClaimedRun, error) {
	return get[api.ClaimedRun](ctx, w.c, path("v1", "claims", api.ClaimID(claim), "run"), nil)
}

// Transcript returns the messages that the agent read before the input of a
// claimed run: the last ones, at most limit.
func (w Work) Transcript(ctx context.Context, claim mailroom.Claim, limit int) ([]mailroom.Message, error) {
	v := url.Values{"limit": {strconv.Itoa(limit)}}
	page, err := get[api.Page[mailroom.Message]](ctx, w.c, path("v1", "claims", api.ClaimID(claim), "transcript"), v)
	return page.Items, err
}

// Log returns the last entries of the thread that the agent of a claimed run may read, oldest first. The Next of the
// page is the Before of the page with older ones. A limit of 0 is 100.
func (w Work) Log(ctx context.Context, claim mailroom.Claim, q mailroom.LogQuery) (api.Page[mailroom.Entry], error) {
	v := url.Values{"kind": q.Kinds}
	for name, n := range map[string]int64{"after": q.After, "before": q.Before, "limit": int64(q.Limit)} {
		if n > 0 {
			v.Set(name, strconv.FormatInt(n, 10))
		}
	}
	return get[api.Page[mailroom.Entry]](ctx, w.c, path("v1", "claims", api.ClaimID(claim), "log"), v)
}

// Input returns the input of a claimed run.
func (w Work) Input(ctx context.Context, claim mailroom.Claim) ([]mailroom.Message, error) {
	page, err := get[api.Page[mailroom.Message]](ctx, w.c, path("v1", "claims", api.ClaimID(claim), "input"), nil)
	return page.Items, err
}

// Tickets returns the tickets of a claimed run.
func (w Work) Tickets(ctx context.Context, claim mailroom.Claim) ([]api.Ticket, error) {
	page, err := get[api.Page[api.Ticket]](ctx, w.c, path("v1", "claims", api.ClaimID(claim), "tickets"), nil)
	return page.Items, err
}

// Effects returns the recorded state of a claimed run's named effects.
func (w Work) Effects(ctx context.Context, claim mailroom.Claim) ([]api.Effect, error) {
	page, err := get[api.Page[api.Effect]](ctx, w.c, path("v1", "claims", api.ClaimID(claim), "effects"), nil)
	return page.Items, err
}

// CloseIdle closes idle connections. After a call that got no answer, they may be dead too.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }
